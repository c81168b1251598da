// Qwen3 dense (Yang et al. 2025): a pre-norm decoder, grouped attention with a norm on each query
// and key head, gated SiLU.
#include "models/decoder_config.h"
#include "models/families.h"
#include "models/pre_norm_layer.h"

namespace ashlar {

namespace {

constexpr const char* kModelTypes[] = {"qwen3"};

class Qwen3 : public Model {
 public:
  Status load(std::shared_ptr<Checkpoint> checkpoint, Device& device, const ModelOptions& options);

  void forward(Step& step, TensorView logits) override {  // logits: [R V]
    const Workspace::Scope step_scope(step.workspace);
    const TensorView x = embed_(step);  // [T D]
    for (const PreNormLayer& layer : layers_) {
      const Workspace::Scope layer_scope(step.workspace);
      layer.attention(step, layer.input_norm(step, x), x);  // adds into x
      layer.mlp(step, layer.post_norm(step, x), x);         // adds into x
      step.emit(layer.name, x);
    }
    head_(step, norm_(step, output_rows(step, x)), logits);
  }

  int64_t workspace_bytes(int64_t rows, int64_t output_rows) const override {
    return pre_norm_workspace_bytes(layers_, norm_, head_, rows, output_rows);
  }

 private:
  Embedding embed_;
  std::vector<PreNormLayer> layers_;
  Norm norm_;
  Head head_;
};

Status Qwen3::load(std::shared_ptr<Checkpoint> checkpoint, Device& device,
                   const ModelOptions& options) {
  const ConfigReader config(checkpoint->config(), checkpoint->config_name());
  ASHLAR_ASSIGN(const DecoderConfig c,
                read_decoder_config(config, {.tied = false, .head_size = 128}));
  ASHLAR_ASSIGN(const RopeConfig rope, read_rope(config, 10000.0, c.context_length));
  ASHLAR_ASSIGN(const std::vector<int64_t> windows, read_qwen_windows(config, c.layers));
  ASHLAR_ASSIGN(const bool attention_bias, config.optional<bool>("attention_bias", false));
  ASHLAR_TRY(config.expect("hidden_act", "silu"));
  ASHLAR_TRY(config.finish());

  ModelBuilder builder(*checkpoint, device, options.kv_type);
  AttentionConfig attention = attention_config(c);
  attention.qk_norm = NormWeight::kPlain;
  attention.qkv_bias = attention.output_bias = attention_bias;
  ASHLAR_ASSIGN(attention.rope, Rope::make(device, rope, c.head_size, usable_context(c, options)));

  ASHLAR_ASSIGN(embed_,
                builder.embedding("model.embed_tokens", c.vocabulary, c.hidden, 1.0, c.tied));
  for (int64_t i = 0; i < c.layers; ++i) {
    attention.window = windows[static_cast<size_t>(i)];
    ASHLAR_ASSIGN(PreNormLayer layer, PreNormLayer::load(builder, i, attention, mlp_config(c)));
    layers_.push_back(std::move(layer));
  }
  ASHLAR_ASSIGN(norm_, builder.norm("model.norm", c.hidden, c.norm_eps, NormWeight::kPlain));
  ASHLAR_ASSIGN(head_, builder.head("lm_head", embed_, c.tied, options.decodable));
  ASHLAR_TRY(builder.finish(options.load));
  adopt(describe_model("qwen3", c, options, builder), builder, std::move(checkpoint));
  return {};
}

}  // namespace

const ModelFamily qwen3_family = {"qwen3", kModelTypes, "Qwen3 (dense)", build_model<Qwen3>};

}  // namespace ashlar
