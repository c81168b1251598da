// Shape and TensorView: a typed, row-major, contiguous shape over memory that somebody else owns.
//
// A view is a small value and is passed by value. It has no operations, knows no stream and never
// frees. Row strides are the one exception to contiguity: the outermost dimension may be strided
// (`row_stride`), so that a fused q|k|v output can be seen as three tensors. Mismatches of dtype or
// rank are programmer errors (CHECK).
#ifndef ASHLAR_TENSOR_TENSOR_VIEW_H_
#define ASHLAR_TENSOR_TENSOR_VIEW_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/check.h"
#include "tensor/dtype.h"

namespace ashlar {

constexpr int kMaxRank = 4;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) {
    CHECK_LE(dims.size(), static_cast<size_t>(kMaxRank));
    for (int64_t d : dims) dims_[rank_++] = d;
  }
  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[i]; }
  // Number of elements; 1 for rank 0.
  int64_t count() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[i];
    return n;
  }
  friend bool operator==(const Shape&, const Shape&) = default;
  std::string text() const;  // "[3 64]"

 private:
  std::array<int64_t, kMaxRank> dims_ = {};
  int rank_ = 0;
};

class TensorView {
 public:
  TensorView() = default;
  TensorView(void* data, DType type, Shape shape)
      : data_(data), shape_(shape), row_stride_(inner_count(shape)), type_(type) {}
  // row_stride in elements: distance between consecutive indices of the outermost dimension.
  TensorView(void* data, DType type, Shape shape, int64_t row_stride)
      : data_(data), shape_(shape), row_stride_(row_stride), type_(type) {}

  bool empty() const { return data_ == nullptr || shape_.count() == 0; }
  void* data() const { return data_; }
  DType dtype() const { return type_; }
  const Shape& shape() const { return shape_; }
  int64_t dim(int i) const { return shape_[i]; }
  int64_t rows() const { return shape_.rank() == 0 ? 1 : shape_[0]; }
  int64_t row_stride() const { return row_stride_; }
  int64_t row_count() const { return inner_count(shape_); }  // elements in one row
  bool contiguous() const { return row_stride_ == inner_count(shape_) || rows() <= 1; }

  // Typed pointer to row 0 or to row i; T must be the view's element type.
  template <class T>
  T* as() const {
    CHECK(DTypeOf<T>::value == type_);
    return static_cast<T*>(data_);
  }
  template <class T>
  T* row(int64_t i) const {
    return as<T>() + i * row_stride_;
  }

  // Rows [begin, begin + count) of the outermost dimension.
  TensorView slice_rows(int64_t begin, int64_t count) const;
  // Columns [begin, begin + count) of a rank-2 view; keeps the row stride.
  TensorView slice_columns(int64_t begin, int64_t count) const;

 private:
  static int64_t inner_count(const Shape& shape) {
    int64_t n = 1;
    for (int i = 1; i < shape.rank(); ++i) n *= shape[i];
    return n;
  }

  void* data_ = nullptr;
  Shape shape_;
  int64_t row_stride_ = 0;
  DType type_ = DType::kF32;
};

}  // namespace ashlar

#endif  // ASHLAR_TENSOR_TENSOR_VIEW_H_
