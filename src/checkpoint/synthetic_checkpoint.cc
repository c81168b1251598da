// A synthetic model as checkpoint contents: the tensors that its configuration asks for, each with
// the rule that fills it.
//
// Matrices have deviation 1 / sqrt(columns), so that rows of unit size stay of unit size through
// every projection; embedding and head twice that, so that logits spread over about ±6 and a
// sampler has something to choose. Gemma's embedding is its head and is scaled up by sqrt(hidden)
// where it enters: with that deviation a token would only ever predict itself, so it has half.
// Norm weights lie near the value that means one.
#include <cmath>

#include "checkpoint/contents.h"
#include "checkpoint/synthetic_spec.h"
#include "checkpoint/synthetic_tensor.h"
#include "checkpoint/synthetic_tokenizer.h"

namespace ashlar {
namespace {

constexpr double kHeadGain = 2.0;
constexpr double kGemmaHeadGain = 0.5;
constexpr double kNormDeviation = 0.05;

class Tensors {
 public:
  Tensors(const SyntheticSpec& spec, TensorUse use, CheckpointContents& contents)
      : seed_(static_cast<uint64_t>(spec.seed)), use_(use), contents_(contents) {}

  Status matrix(const std::string& name, int64_t rows, int64_t columns, double gain = 1.0) {
    return add(name + ".weight", {rows, columns}, 0.0,
               gain / std::sqrt(static_cast<double>(columns)));
  }
  Status norm(const std::string& name, int64_t size, double mean) {
    return add(name + ".weight", {size}, mean, kNormDeviation);
  }

 private:
  Status add(std::string name, std::vector<int64_t> shape, double mean, double deviation) {
    SyntheticValues values;
    values.key = synthetic_key(seed_, name);
    values.mean = static_cast<float>(mean);
    values.scale = static_cast<float>(deviation / kSyntheticSumDeviation);
    StoredTensor tensor;
    tensor.name = std::move(name);
    tensor.type = StorageType::kBF16;
    tensor.shape = std::move(shape);
    ASHLAR_ASSIGN(tensor.synthetic,
                  SyntheticTensor::make(values, tensor.elements(), use_ == TensorUse::kShapes));
    tensor.bytes = tensor.synthetic->bytes();
    tensor.file = contents_.path;
    contents_.tensors.push_back(std::move(tensor));
    return {};
  }

  uint64_t seed_;
  TensorUse use_;
  CheckpointContents& contents_;
};

Status add_layer(const SyntheticPreset& preset, int64_t layer, Tensors& tensors) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const std::string attention = prefix + "self_attn.";
  const bool gemma = preset.family == "gemma3_text";
  const double one = gemma ? 0.0 : 1.0;  // Gemma's norms mean 1 + w
  const int64_t queries = preset.heads * preset.head_size;
  const int64_t keys = preset.kv_heads * preset.head_size;
  ASHLAR_TRY(tensors.norm(prefix + "input_layernorm", preset.hidden, one));
  ASHLAR_TRY(tensors.matrix(attention + "q_proj", queries, preset.hidden));
  ASHLAR_TRY(tensors.matrix(attention + "k_proj", keys, preset.hidden));
  ASHLAR_TRY(tensors.matrix(attention + "v_proj", keys, preset.hidden));
  ASHLAR_TRY(tensors.matrix(attention + "o_proj", preset.hidden, queries));
  if (gemma || preset.family == "qwen3") {
    ASHLAR_TRY(tensors.norm(attention + "q_norm", preset.head_size, one));
    ASHLAR_TRY(tensors.norm(attention + "k_norm", preset.head_size, one));
  }
  ASHLAR_TRY(tensors.norm(prefix + "post_attention_layernorm", preset.hidden, one));
  if (gemma) {
    ASHLAR_TRY(tensors.norm(prefix + "pre_feedforward_layernorm", preset.hidden, one));
    ASHLAR_TRY(tensors.norm(prefix + "post_feedforward_layernorm", preset.hidden, one));
  }
  ASHLAR_TRY(tensors.matrix(prefix + "mlp.gate_proj", preset.feed_forward, preset.hidden));
  ASHLAR_TRY(tensors.matrix(prefix + "mlp.up_proj", preset.feed_forward, preset.hidden));
  return tensors.matrix(prefix + "mlp.down_proj", preset.hidden, preset.feed_forward);
}

}  // namespace

Result<CheckpointContents> read_synthetic_checkpoint(const std::string& argument, TensorUse use) {
  ASHLAR_ASSIGN(const SyntheticSpec spec, parse_synthetic(argument));
  const SyntheticPreset& preset = *spec.preset;
  CheckpointContents contents;
  contents.path = argument;
  contents.container = "synthetic";
  contents.config = synthetic_config(spec);
  contents.config_name = argument + " (config)";
  contents.generation_config = synthetic_generation_config();
  contents.generated_text = [tokens = spec.decodable_width(), context = preset.context_length](
                                std::string_view file) -> std::optional<std::string> {
    if (file == "tokenizer.json") return synthetic_tokenizer_json(tokens);
    if (file == "tokenizer_config.json") return synthetic_tokenizer_config_json(context);
    return std::nullopt;
  };
  Tensors tensors(spec, use, contents);
  const bool gemma = preset.family == "gemma3_text";
  ASHLAR_TRY(tensors.matrix("model.embed_tokens", spec.vocabulary(), preset.hidden,
                            gemma ? kGemmaHeadGain : kHeadGain));
  for (int64_t layer = 0; layer < spec.layer_count(); ++layer) {
    ASHLAR_TRY(add_layer(preset, layer, tensors));
  }
  ASHLAR_TRY(tensors.norm("model.norm", preset.hidden, gemma ? 0.0 : 1.0));
  if (!preset.tied) {
    ASHLAR_TRY(tensors.matrix("lm_head", spec.vocabulary(), preset.hidden, kHeadGain));
  }
  return contents;
}

}  // namespace ashlar
