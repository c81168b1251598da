// Gemma 3 (Gemma Team 2025), text: norms before and after each part, a norm on each query and key
// head, gated GELU, five layers that see a window for each that sees everything. The two kinds
// rotate differently, and only the second is stretched.
//
// Norm weights mean 1 + w; embeddings are scaled by sqrt(D), in f32. Checkpoints with a vision part
// are refused.
#include <algorithm>
#include <cmath>

#include "models/decoder_config.h"
#include "models/families.h"
#include "nn/workspace_size.h"

namespace ashlar {

namespace {

constexpr const char* kModelTypes[] = {"gemma3_text", "gemma3"};

struct Layer {
  std::string name;
  Norm input_norm;
  Attention attention;
  Norm post_attention_norm;
  Norm pre_mlp_norm;
  Mlp mlp;
  Norm post_mlp_norm;

  int64_t workspace_bytes(int64_t rows) const {
    return input_norm.workspace_bytes(rows) + attention.workspace_bytes(rows) +
           pre_mlp_norm.workspace_bytes(rows) + mlp.workspace_bytes(rows);
  }
};

class Gemma3 : public Model {
 public:
  Status load(std::shared_ptr<Checkpoint> checkpoint, Device& device, const ModelOptions& options);

  void forward(Step& step, TensorView logits) override {  // logits: [R V]
    const Workspace::Scope step_scope(step.workspace);
    const TensorView x = embed_(step);  // [T D]
    for (const Layer& layer : layers_) {
      const Workspace::Scope layer_scope(step.workspace);
      layer.post_attention_norm.add(step, layer.attention(step, layer.input_norm(step, x)), x);
      layer.post_mlp_norm.add(step, layer.mlp(step, layer.pre_mlp_norm(step, x)), x);
      step.emit(layer.name, x);
    }
    head_(step, norm_(step, output_rows(step, x)), logits);
  }

  int64_t workspace_bytes(int64_t rows, int64_t output_rows) const override {
    int64_t bytes = f32_workspace_bytes(output_rows, norm_.size()) +
                    norm_.workspace_bytes(output_rows) + head_.workspace_bytes(output_rows);
    for (const Layer& layer : layers_) bytes = std::max(bytes, layer.workspace_bytes(rows));
    return bytes + f32_workspace_bytes(rows, norm_.size());
  }

 private:
  Embedding embed_;
  std::vector<Layer> layers_;
  Norm norm_;
  Head head_;
};

struct Gemma3Rope {
  RopeConfig full;
  RopeConfig sliding;
};

// rope_parameters with an object a layer type, or rope_theta, rope_scaling and
// rope_local_base_freq.
Result<Gemma3Rope> read_gemma3_rope(const ConfigReader& config, int64_t context_length) {
  constexpr double kFullTheta = 1e6;
  constexpr double kSlidingTheta = 1e4;
  Gemma3Rope rope;
  rope.full.theta = kFullTheta;
  rope.sliding.theta = kSlidingTheta;
  ASHLAR_ASSIGN(const auto parameters, config.optional_object("rope_parameters"));
  if (!parameters) {
    ASHLAR_ASSIGN(rope.full, read_rope(config, kFullTheta, context_length));
    ASHLAR_ASSIGN(rope.sliding.theta,
                  config.optional<double>("rope_local_base_freq", kSlidingTheta));
    if (!(rope.sliding.theta > 1.0))
      return config.refuse("rope_local_base_freq", "must be above 1");
    return rope;
  }
  ASHLAR_ASSIGN(const auto full, parameters->optional_object("full_attention"));
  if (full) {
    ASHLAR_ASSIGN(rope.full, read_rope_object(*full, kFullTheta, context_length));
  }
  ASHLAR_ASSIGN(const auto sliding, parameters->optional_object("sliding_attention"));
  if (sliding) {
    ASHLAR_ASSIGN(rope.sliding, read_rope_object(*sliding, kSlidingTheta, context_length));
  }
  return rope;
}

// Every sixth layer sees everything, unless the file says otherwise.
Result<std::vector<int64_t>> read_gemma3_windows(const ConfigReader& config, int64_t layers) {
  ASHLAR_ASSIGN(const int64_t window, config.require<int64_t>("sliding_window"));
  if (window < 1) return config.refuse("sliding_window", "must be positive");
  ASHLAR_ASSIGN(const auto old_pattern, config.optional<int64_t>("_sliding_window_pattern", 6));
  ASHLAR_ASSIGN(const int64_t pattern,
                config.optional<int64_t>("sliding_window_pattern", old_pattern));
  if (pattern < 1) return config.refuse("sliding_window_pattern", "must be positive");
  std::vector<int64_t> usual;
  for (int64_t i = 0; i < layers; ++i) usual.push_back((i + 1) % pattern == 0 ? 0 : window);
  return read_windows(config, window, std::move(usual));
}

Result<Layer> load_layer(ModelBuilder& builder, int64_t index, const AttentionConfig& attention,
                         const MlpConfig& mlp) {
  const std::string prefix = fmt::format("model.layers.{}", index);
  const auto norm = [&](const char* name) {
    return builder.norm(prefix + name, attention.hidden, attention.norm_eps, NormWeight::kPlusOne);
  };
  Layer layer;
  layer.name = fmt::format("layers.{}", index);
  ASHLAR_ASSIGN(layer.input_norm, norm(".input_layernorm"));
  ASHLAR_ASSIGN(layer.attention, Attention::load(builder, prefix + ".self_attn", attention));
  ASHLAR_ASSIGN(layer.post_attention_norm, norm(".post_attention_layernorm"));
  ASHLAR_ASSIGN(layer.pre_mlp_norm, norm(".pre_feedforward_layernorm"));
  ASHLAR_ASSIGN(layer.mlp, Mlp::load(builder, prefix + ".mlp", mlp));
  ASHLAR_ASSIGN(layer.post_mlp_norm, norm(".post_feedforward_layernorm"));
  return layer;
}

Status Gemma3::load(std::shared_ptr<Checkpoint> checkpoint, Device& device,
                    const ModelOptions& options) {
  const ConfigReader config(checkpoint->config(), checkpoint->config_name());
  if (config.has("text_config") || config.has("vision_config")) {
    return config.refuse("vision_config", "only the text models of Gemma 3 are supported");
  }
  ASHLAR_ASSIGN(const DecoderConfig c,
                read_decoder_config(config, {.tied = true, .head_size = 256}));
  ASHLAR_ASSIGN(const Gemma3Rope rope, read_gemma3_rope(config, c.context_length));
  ASHLAR_ASSIGN(const std::vector<int64_t> windows, read_gemma3_windows(config, c.layers));
  ASHLAR_ASSIGN(const double query_scalar, config.optional<double>("query_pre_attn_scalar", 256.0));
  if (!(query_scalar > 0.0)) return config.refuse("query_pre_attn_scalar", "must be positive");
  ASHLAR_ASSIGN(const bool attention_bias, config.optional<bool>("attention_bias", false));
  ASHLAR_TRY(config.expect("hidden_activation", "gelu_pytorch_tanh"));
  ASHLAR_TRY(config.expect("hidden_act", "gelu_pytorch_tanh"));
  ASHLAR_TRY(config.expect("use_bidirectional_attention", false));
  ASHLAR_TRY(config.expect_absent("attn_logit_softcapping"));
  ASHLAR_TRY(config.expect_absent("final_logit_softcapping"));
  ASHLAR_TRY(config.finish());

  ModelBuilder builder(*checkpoint, device, options.kv_type);
  AttentionConfig attention = attention_config(c);
  attention.scale = 1.0 / std::sqrt(query_scalar);
  attention.qk_norm = NormWeight::kPlusOne;
  attention.qkv_bias = attention.output_bias = attention_bias;
  MlpConfig mlp = mlp_config(c);
  mlp.activation = GatedActivation::kGeluTanh;
  const int64_t context = usable_context(c, options);
  ASHLAR_ASSIGN(const auto full_rope, Rope::make(device, rope.full, c.head_size, context));
  ASHLAR_ASSIGN(const auto sliding_rope, Rope::make(device, rope.sliding, c.head_size, context));

  const double embedding_scale = std::sqrt(static_cast<double>(c.hidden));
  ASHLAR_ASSIGN(embed_, builder.embedding("model.embed_tokens", c.vocabulary, c.hidden,
                                          embedding_scale, c.tied));
  for (int64_t i = 0; i < c.layers; ++i) {
    attention.window = windows[static_cast<size_t>(i)];
    attention.rope = attention.window > 0 ? sliding_rope : full_rope;
    ASHLAR_ASSIGN(Layer layer, load_layer(builder, i, attention, mlp));
    layers_.push_back(std::move(layer));
  }
  ASHLAR_ASSIGN(norm_, builder.norm("model.norm", c.hidden, c.norm_eps, NormWeight::kPlusOne));
  ASHLAR_ASSIGN(head_, builder.head("lm_head", embed_, c.tied, options.decodable));
  ASHLAR_TRY(builder.finish(options.load));
  adopt(describe_model("gemma3", c, options, builder), builder, std::move(checkpoint));
  return {};
}

}  // namespace

const ModelFamily gemma3_family = {"gemma3", kModelTypes, "Gemma 3 (text)", build_model<Gemma3>};

}  // namespace ashlar
