// Loads and applies grouped self-attention.
#include "nn/attention.h"

#include <algorithm>

#include "kernels/attention/attention.h"
#include "kernels/qk_norm_rope_store/qk_norm_rope_store.h"
#include "nn/workspace_size.h"

namespace ashlar {

Result<Attention> Attention::load(ModelBuilder& builder, const std::string& prefix,
                                  const AttentionConfig& config) {
  const int64_t size = config.head_size;
  Attention block;
  block.config_ = config;
  ASHLAR_ASSIGN(
      block.qkv_,
      builder.linear(
          {{.name = prefix + ".q_proj", .outputs = config.heads * size, .rotated_head = size},
           {.name = prefix + ".k_proj", .outputs = config.kv_heads * size, .rotated_head = size},
           {.name = prefix + ".v_proj", .outputs = config.kv_heads * size}},
          config.hidden, config.qkv_bias));
  ASHLAR_ASSIGN(block.output_,
                builder.linear({{.name = prefix + ".o_proj", .outputs = config.hidden}},
                               config.heads * size, config.output_bias));
  if (config.qk_norm) {
    ASHLAR_ASSIGN(block.q_norm_,
                  builder.norm(prefix + ".q_norm", size, config.norm_eps, *config.qk_norm));
    ASHLAR_ASSIGN(block.k_norm_,
                  builder.norm(prefix + ".k_norm", size, config.norm_eps, *config.qk_norm));
  }
  block.state_ = builder.add_paged(config.kv_heads, size, config.window);
  return block;
}

TensorView Attention::attend(Step& step, TensorView x) const {
  const int64_t rows = x.rows();
  const int64_t queries = config_.heads * config_.head_size;
  const TensorView qkv = step.workspace.take(DType::kF32, {rows, qkv_.outputs()});
  const TensorView y = step.workspace.take(DType::kF32, {rows, queries});
  const TensorView pages = step.paged[state_];
  qkv_(step, x, qkv);
  qk_norm_rope_store(step.stream, {.qkv = qkv,
                                   .q_norm = q_norm_ ? q_norm_->weight() : TensorView(),
                                   .k_norm = k_norm_ ? k_norm_->weight() : TensorView(),
                                   .eps = static_cast<float>(config_.norm_eps),
                                   .cos_sin = config_.rope->cos_sin(),
                                   .positions = step.positions,
                                   .row_sequence = step.row_sequence,
                                   .page_table = step.page_table,
                                   .pages = pages});
  attention(step.stream, {.q = qkv.slice_columns(0, queries),
                          .pages = pages,
                          .page_table = step.page_table,
                          .positions = step.positions,
                          .sequence_starts = step.sequence_starts,
                          .y = y,
                          .scale = static_cast<float>(config_.scale),
                          .window = config_.window});
  return y;
}

void Attention::operator()(Step& step, TensorView x, TensorView residual) const {
  output_.add(step, attend(step, x), residual);
}

TensorView Attention::operator()(Step& step, TensorView x) const {
  const TensorView y = step.workspace.take(DType::kF32, {x.rows(), config_.hidden});
  output_(step, attend(step, x), y);
  return y;
}

int64_t Attention::workspace_bytes(int64_t rows) const {
  return f32_workspace_bytes(rows, qkv_.outputs()) + f32_workspace_bytes(rows, output_.inputs()) +
         f32_workspace_bytes(rows, config_.hidden) +
         std::max(qkv_.workspace_bytes(rows), output_.workspace_bytes(rows));
}

}  // namespace ashlar
