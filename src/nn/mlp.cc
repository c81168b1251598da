// Loads and applies the gated feed-forward part.
#include "nn/mlp.h"

#include <algorithm>

#include "nn/workspace_size.h"

namespace ashlar {

Result<Mlp> Mlp::load(ModelBuilder& builder, const std::string& prefix, const MlpConfig& config) {
  Mlp mlp;
  mlp.config_ = config;
  mlp.type_ = activation_type(builder.device().backend());
  ASHLAR_ASSIGN(mlp.gate_up_,
                builder.linear({{.name = prefix + ".gate_proj", .outputs = config.feed_forward},
                                {.name = prefix + ".up_proj", .outputs = config.feed_forward}},
                               config.hidden, config.bias, WeightUse::kGated));
  ASHLAR_ASSIGN(mlp.down_,
                builder.linear({{.name = prefix + ".down_proj", .outputs = config.hidden}},
                               config.feed_forward, config.bias));
  return mlp;
}

TensorView Mlp::activated(Step& step, TensorView x) const {
  const TensorView y = step.workspace.take(type_, {x.rows(), config_.feed_forward});
  gate_up_.gated(step, x, y, config_.activation);
  return y;
}

void Mlp::operator()(Step& step, TensorView x, TensorView residual) const {
  down_.add(step, activated(step, x), residual);
}

TensorView Mlp::operator()(Step& step, TensorView x) const {
  const TensorView y = step.workspace.take(DType::kF32, {x.rows(), config_.hidden});
  down_(step, activated(step, x), y);
  return y;
}

int64_t Mlp::workspace_bytes(int64_t rows) const {
  return workspace_bytes_of(type_, rows, config_.feed_forward) +
         f32_workspace_bytes(rows, config_.hidden) +
         std::max(gate_up_.workspace_bytes(rows), down_.workspace_bytes(rows));
}

}  // namespace ashlar
