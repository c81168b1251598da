// Norm: RMS norm of rows, into scratch or added to the residual stream.
#ifndef ASHLAR_NN_NORM_H_
#define ASHLAR_NN_NORM_H_

#include <cstdint>

#include "kernels/rms_norm/rms_norm.h"
#include "nn/step.h"
#include "nn/workspace_size.h"
#include "tensor/buffer.h"

namespace ashlar {

class Norm {
 public:
  Norm() = default;
  // weight: [D] f32 on the device, with any offset of the family already added.
  // type: of the normed rows, the backend's activation type.
  Norm(Buffer weight, int64_t size, double eps, DType type)
      : weight_(std::move(weight)), size_(size), eps_(static_cast<float>(eps)), type_(type) {}

  int64_t size() const { return size_; }
  float eps() const { return eps_; }
  TensorView weight() const { return weight_.view(DType::kF32, {size_}); }

  // The normed rows of x [T D] f32, in workspace memory.
  TensorView operator()(Step& step, TensorView x) const {
    const TensorView y = step.workspace.take(type_, x.shape());
    rms_norm(step.stream, {.x = x, .weight = weight(), .y = y, .eps = eps_});
    return y;
  }
  // y += norm(x), both f32.
  void add(Step& step, TensorView x, TensorView y) const {
    rms_norm(step.stream, {.x = x, .weight = weight(), .y = y, .eps = eps_, .add_to_output = true});
  }

  int64_t workspace_bytes(int64_t rows) const { return workspace_bytes_of(type_, rows, size_); }

 private:
  Buffer weight_;
  int64_t size_ = 0;
  float eps_ = 0.0f;
  DType type_ = DType::kF32;
};

}  // namespace ashlar

#endif  // ASHLAR_NN_NORM_H_
