// Loads and applies grouped self-attention.
#include "nn/attention.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_scratch.h"
#include "kernels/qk_norm_rope_store/qk_norm_rope_store.h"
#include "nn/workspace_size.h"

namespace ashlar {

namespace {

// What the attention of a CUDA device takes (kernels/attention/attention_cuda.cc).
Status check_heads(ModelBuilder& builder, const AttentionConfig& config) {
  constexpr int64_t kCudaSizes[] = {64, 96, 128, 256};
  constexpr int64_t kCudaGroup = 64;
  if (builder.device().backend() != Backend::kCuda) return {};
  if (config.heads > kCudaGroup * config.kv_heads) {
    return fail(ErrorCode::kUnsupported,
                "{}: {} query heads for {} key heads do not run on a CUDA device, which takes {} a "
                "key head; use the CPU",
                builder.checkpoint().config_name(), config.heads, config.kv_heads, kCudaGroup);
  }
  const int64_t size = config.head_size;
  if (std::find(std::begin(kCudaSizes), std::end(kCudaSizes), size) != std::end(kCudaSizes)) {
    return {};
  }
  return fail(ErrorCode::kUnsupported,
              "{}: a head size of {} does not run on a CUDA device, which takes {}; use the CPU",
              builder.checkpoint().config_name(), size, fmt::join(kCudaSizes, ", "));
}

}  // namespace

Result<Attention> Attention::load(ModelBuilder& builder, const std::string& prefix,
                                  const AttentionConfig& config) {
  const int64_t size = config.head_size;
  Attention block;
  block.config_ = config;
  block.backend_ = builder.device().backend();
  ASHLAR_TRY(check_heads(builder, config));
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
  const TensorView qkv = step.workspace.take(step.activation(), {rows, qkv_.outputs()});
  const TensorView y = step.workspace.take(step.activation(), {rows, queries});
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
  const Workspace::Scope scratch_scope(step.workspace);
  const int64_t scratch_bytes = attention_scratch_bytes(
      backend_, sizes(rows, step.sequences(), step.page_table.dim(1) * pages.dim(2)));
  attention(step.stream, {.q = qkv.slice_columns(0, queries),
                          .pages = pages,
                          .page_table = step.page_table,
                          .positions = step.positions,
                          .sequence_starts = step.sequence_starts,
                          .y = y,
                          .scale = static_cast<float>(config_.scale),
                          .window = config_.window,
                          .soft_cap = 0.0f,
                          .scratch = scratch_bytes == 0
                                         ? TensorView()
                                         : step.workspace.take(DType::kF32, {scratch_bytes / 4})});
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
  const DType type = activation_type(backend_);
  const int64_t context = config_.rope->cos_sin().dim(0);
  const int64_t scratch = attention_scratch_bytes(backend_, sizes(rows, rows, context));
  return workspace_bytes_of(type, rows, qkv_.outputs()) +
         workspace_bytes_of(type, rows, output_.inputs()) +
         f32_workspace_bytes(rows, config_.hidden) +
         std::max({qkv_.workspace_bytes(rows), output_.workspace_bytes(rows),
                   scratch == 0 ? 0 : round_up(scratch, 64)});
}

AttentionSizes Attention::sizes(int64_t rows, int64_t sequences, int64_t positions) const {
  return {.rows = rows,
          .sequences = sequences,
          .heads = config_.heads,
          .kv_heads = config_.kv_heads,
          .head_size = config_.head_size,
          .table_positions = positions};
}

}  // namespace ashlar
