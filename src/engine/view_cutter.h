// ViewCutter: cuts views out of one buffer, one after the other, each at a multiple of 64 bytes.
// Without a buffer it only counts, so that the same list of views says how large a buffer must be.
#ifndef ASHLAR_ENGINE_VIEW_CUTTER_H_
#define ASHLAR_ENGINE_VIEW_CUTTER_H_

#include <cstdint>

#include "base/align.h"
#include "tensor/buffer.h"

namespace ashlar {

class ViewCutter {
 public:
  ViewCutter() = default;
  explicit ViewCutter(const Buffer& buffer) : buffer_(&buffer) {}

  TensorView take(DType type, Shape shape) {
    const int64_t at = used_;
    used_ += round_up(shape.count() * static_cast<int64_t>(dtype_bytes(type)), 64);
    return buffer_ == nullptr ? TensorView() : buffer_->view(type, shape, static_cast<size_t>(at));
  }
  TensorView take_i32(Shape shape) { return take(DType::kI32, shape); }
  int64_t used() const { return used_; }

 private:
  const Buffer* buffer_ = nullptr;
  int64_t used_ = 0;
};

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_VIEW_CUTTER_H_
