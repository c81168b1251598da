// Llama 2 and 3 (Touvron et al. 2023), SmolLM2 and Mistral: a pre-norm decoder with grouped
// attention, half-split rotary positions and a gated SiLU. Mistral adds a sliding window to every
// layer; older GGUF files call it llama too.
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/decoder_config.h"
#include "models/families.h"
#include "models/pre_norm_layer.h"

namespace ashlar {

namespace {

constexpr const char* kModelTypes[] = {"llama", "mistral"};

class Llama : public Model {
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

// The window of all layers. A Mistral file without the key means 4096, one with null none; Hugging
// Face's Llama has no window, a GGUF file of architecture llama may be a Mistral and state one.
Result<int64_t> read_window(const ConfigReader& config, const Checkpoint& checkpoint,
                            bool mistral) {
  constexpr int64_t kMistralWindow = 4096;
  if (!mistral && checkpoint.gguf() == nullptr) {
    ASHLAR_TRY(config.expect_absent("sliding_window"));
    return 0;
  }
  const bool silent = mistral && !checkpoint.config().contains("sliding_window");
  ASHLAR_ASSIGN(const int64_t window,
                config.optional<int64_t>("sliding_window", silent ? kMistralWindow : 0));
  if (window < 0) return config.refuse("sliding_window", "must not be negative");
  return window;
}

// GGUF files state the stretching of Llama 3 as divisors of the frequencies instead of its
// parameters.
Status read_divisors(ModelBuilder& builder, const DecoderConfig& config, RopeConfig& rope) {
  constexpr const char* kName = "rope_freqs.weight";
  ASHLAR_ASSIGN(const std::vector<float> divisors,
                builder.optional_vector(kName, config.head_size / 2));
  for (const float divisor : divisors) {
    if (!(divisor > 0.0f) || !std::isfinite(divisor)) {
      return fail(ErrorCode::kCorrupt, "{}: the tensor {} must have positive numbers",
                  builder.checkpoint().path(), kName);
    }
  }
  rope.divisors.assign(divisors.begin(), divisors.end());
  return {};
}

Status Llama::load(std::shared_ptr<Checkpoint> checkpoint, Device& device,
                   const ModelOptions& options) {
  const ConfigReader config(checkpoint->config(), checkpoint->config_name());
  ASHLAR_ASSIGN(const std::string type, config.require<std::string>("model_type"));
  ASHLAR_ASSIGN(const DecoderConfig c, read_decoder_config(config, {.tied = false}));
  ASHLAR_ASSIGN(RopeConfig rope, read_rope(config, 10000.0, c.context_length));
  ASHLAR_ASSIGN(const int64_t window, read_window(config, *checkpoint, type == "mistral"));
  ASHLAR_ASSIGN(const bool attention_bias, config.optional<bool>("attention_bias", false));
  ASHLAR_ASSIGN(const bool mlp_bias, config.optional<bool>("mlp_bias", false));
  ASHLAR_TRY(config.expect("hidden_act", "silu"));
  ASHLAR_TRY(config.expect("rope_interleaved", false));
  ASHLAR_TRY(config.finish());

  ModelBuilder builder(*checkpoint, device, options.kv_type);
  ASHLAR_TRY(read_divisors(builder, c, rope));
  AttentionConfig attention = attention_config(c);
  attention.window = window;
  attention.qkv_bias = attention.output_bias = attention_bias;
  ASHLAR_ASSIGN(attention.rope, Rope::make(device, rope, c.head_size, usable_context(c, options)));
  MlpConfig mlp = mlp_config(c);
  mlp.bias = mlp_bias;

  ASHLAR_ASSIGN(embed_,
                builder.embedding("model.embed_tokens", c.vocabulary, c.hidden, 1.0, c.tied));
  for (int64_t i = 0; i < c.layers; ++i) {
    ASHLAR_ASSIGN(PreNormLayer layer, PreNormLayer::load(builder, i, attention, mlp));
    layers_.push_back(std::move(layer));
  }
  ASHLAR_ASSIGN(norm_, builder.norm("model.norm", c.hidden, c.norm_eps, NormWeight::kPlain));
  ASHLAR_ASSIGN(head_, builder.head("lm_head", embed_, c.tied, options.decodable));
  ASHLAR_TRY(builder.finish(options.load));
  adopt(describe_model("llama", c, options, builder), builder, std::move(checkpoint));
  return {};
}

}  // namespace

const ModelFamily llama_family = {"llama", kModelTypes, "Llama 2 and 3, Mistral, SmolLM2",
                                  build_model<Llama>};

}  // namespace ashlar
