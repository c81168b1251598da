// Linear: one matrix, or several of a checkpoint fused into one, with its bias. The storage format
// is the weight's business; a layer only says what happens to the sum.
#ifndef ASHLAR_NN_LINEAR_H_
#define ASHLAR_NN_LINEAR_H_

#include <cstdint>
#include <memory>

#include "formats/format.h"
#include "nn/step.h"
#include "tensor/buffer.h"

namespace ashlar {

class Linear {
 public:
  Linear() = default;
  // bias: [N] f32 on the device, or an empty buffer.
  Linear(std::shared_ptr<const Weight> weight, Buffer bias)
      : weight_(std::move(weight)), bias_(std::move(bias)) {}

  int64_t outputs() const { return weight_->outputs(); }
  int64_t inputs() const { return weight_->inputs(); }

  // x [T K] of the activation type, y [T N] of that type or f32; they do not overlap.
  void operator()(Step& step, TensorView x, TensorView y) const { apply(step, x, y, {}); }
  // y += x W^T + bias, y f32.
  void add(Step& step, TensorView x, TensorView y) const {
    apply(step, x, y, {.bias = {}, .add_to_output = true});
  }
  // y [T N/2] of the activation type: activation(gate) * up, gate the first half of the outputs.
  // For a weight that was loaded as gated.
  void gated(Step& step, TensorView x, TensorView y, GatedActivation activation) const {
    apply(step, x, y, {.bias = {}, .gated = activation});
  }

  int64_t workspace_bytes(int64_t rows) const { return weight_->workspace_bytes(rows); }

 private:
  void apply(Step& step, TensorView x, TensorView y, Epilogue epilogue) const {
    if (bias_.data() != nullptr) epilogue.bias = bias_.view(DType::kF32, {weight_->outputs()});
    weight_->apply(step.stream, step.workspace, x, y, epilogue);
  }

  std::shared_ptr<const Weight> weight_;
  Buffer bias_;
};

}  // namespace ashlar

#endif  // ASHLAR_NN_LINEAR_H_
