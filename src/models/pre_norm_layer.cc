// Loads a pre-norm layer by the tensor names of Hugging Face and bounds its scratch.
#include "models/pre_norm_layer.h"

#include <fmt/format.h>

#include "nn/workspace_size.h"

namespace ashlar {

Result<PreNormLayer> PreNormLayer::load(ModelBuilder& builder, int64_t index,
                                        const AttentionConfig& attention, const MlpConfig& mlp) {
  const std::string prefix = fmt::format("model.layers.{}", index);
  const int64_t hidden = attention.hidden;
  const double eps = attention.norm_eps;
  PreNormLayer layer;
  layer.name = fmt::format("layers.{}", index);
  // Tables of frequencies that old files carry; ours come from the configuration.
  builder.ignore_tensor(prefix + ".self_attn.rotary_emb.inv_freq");
  ASHLAR_ASSIGN(layer.input_norm,
                builder.norm(prefix + ".input_layernorm", hidden, eps, NormWeight::kPlain));
  ASHLAR_ASSIGN(layer.attention, Attention::load(builder, prefix + ".self_attn", attention));
  ASHLAR_ASSIGN(layer.post_norm, builder.norm(prefix + ".post_attention_layernorm", hidden, eps,
                                              NormWeight::kPlain));
  ASHLAR_ASSIGN(layer.mlp, Mlp::load(builder, prefix + ".mlp", mlp));
  return layer;
}

int64_t pre_norm_workspace_bytes(const std::vector<PreNormLayer>& layers, const Norm& final_norm,
                                 const Head& head, int64_t rows, int64_t output_rows) {
  int64_t layer_bytes = 0;
  for (const PreNormLayer& layer : layers) {
    layer_bytes =
        std::max(layer_bytes,
                 layer.input_norm.workspace_bytes(rows) + layer.attention.workspace_bytes(rows) +
                     layer.post_norm.workspace_bytes(rows) + layer.mlp.workspace_bytes(rows));
  }
  const int64_t head_bytes = f32_workspace_bytes(output_rows, final_norm.size()) +
                             final_norm.workspace_bytes(output_rows) +
                             head.workspace_bytes(output_rows);
  return f32_workspace_bytes(rows, final_norm.size()) + std::max(layer_bytes, head_bytes);
}

}  // namespace ashlar
