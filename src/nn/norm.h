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
  Norm(Buffer weight, int64_t size, double eps)
      : weight_(std::move(weight)), size_(size), eps_(static_cast<float>(eps)) {}

  int64_t size() const { return size_; }
  float eps() const { return eps_; }
  TensorView weight() const { return weight_.view(DType::kF32, {size_}); }

  // The normed rows, in workspace memory.
  TensorView operator()(Step& step, TensorView x) const {
    const TensorView y = step.workspace.take(DType::kF32, x.shape());
    rms_norm(step.stream, {.x = x, .weight = weight(), .y = y, .eps = eps_});
    return y;
  }
  // y += norm(x).
  void add(Step& step, TensorView x, TensorView y) const {
    rms_norm(step.stream, {.x = x, .weight = weight(), .y = y, .eps = eps_, .add_to_output = true});
  }

  int64_t workspace_bytes(int64_t rows) const { return f32_workspace_bytes(rows, size_); }

 private:
  Buffer weight_;
  int64_t size_ = 0;
  float eps_ = 0.0f;
};

}  // namespace ashlar

#endif  // ASHLAR_NN_NORM_H_
