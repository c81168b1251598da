// Slicing and printing of views.
// Slices share memory with their source; nothing is copied.
#include "tensor/tensor_view.h"

namespace ashlar {

std::string Shape::text() const {
  std::string out = "[";
  for (int i = 0; i < rank_; ++i) out += fmt::format("{}{}", i == 0 ? "" : " ", dims_[i]);
  return out + "]";
}

TensorView TensorView::slice_rows(int64_t begin, int64_t count) const {
  CHECK(begin >= 0 && count >= 0 && begin + count <= rows());
  Shape shape;
  switch (shape_.rank()) {
    case 1:
      shape = {count};
      break;
    case 2:
      shape = {count, shape_[1]};
      break;
    case 3:
      shape = {count, shape_[1], shape_[2]};
      break;
    default:
      CHECK_EQ(shape_.rank(), 4);
      shape = {count, shape_[1], shape_[2], shape_[3]};
  }
  auto* base = static_cast<std::byte*>(data_) +
               begin * row_stride_ * static_cast<int64_t>(dtype_bytes(type_));
  return TensorView(base, type_, shape, row_stride_);
}

TensorView TensorView::slice_columns(int64_t begin, int64_t count) const {
  CHECK_EQ(shape_.rank(), 2);
  CHECK(begin >= 0 && count >= 0 && begin + count <= shape_[1]);
  auto* base = static_cast<std::byte*>(data_) + begin * static_cast<int64_t>(dtype_bytes(type_));
  return TensorView(base, type_, Shape{shape_[0], count}, row_stride_);
}

}  // namespace ashlar
