// Gathers the rows that enter a step and those that leave it.
#include "nn/embedding.h"

#include "kernels/gather_rows/gather_rows.h"

namespace ashlar {

TensorView Embedding::operator()(Step& step) const {
  const TensorView x = step.workspace.take(DType::kF32, {step.rows(), weight_->inputs()});
  weight_->gather(step.stream, step.tokens, x, scale_);
  return x;
}

void Head::operator()(Step& step, TensorView x, TensorView logits) const {
  if (x.rows() == 0) return;
  weight_->apply(step.stream, step.workspace, x, logits, {.bias = {}, .decodable = decodable_});
}

TensorView output_rows(Step& step, TensorView x) {
  const TensorView y = step.workspace.take(DType::kF32, {step.output_rows.dim(0), x.dim(1)});
  gather_rows(step.stream, {.x = x, .rows = step.output_rows, .y = y});
  return y;
}

}  // namespace ashlar
