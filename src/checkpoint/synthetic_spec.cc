// The presets, as their publishers' config.json states them, and the reading of arguments.
#include "checkpoint/synthetic_spec.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/quote.h"
#include "checkpoint/synthetic_tokenizer.h"

namespace ashlar {
namespace {

using nlohmann::json;

constexpr int64_t kMaxLayers = 256;
constexpr int64_t kMaxVocabulary = 1 << 20;
constexpr double kMaxSeed = 9007199254740992.0;  // whole numbers up to here are exact as doubles

constexpr std::string_view kLlama = R"({
    "attention_bias": false, "attention_dropout": 0.0, "hidden_act": "silu", "mlp_bias": false,
    "pretraining_tp": 1,
    "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"}})";
constexpr std::string_view kMistral = R"({
    "attention_dropout": 0.0, "hidden_act": "silu", "sliding_window": null})";
constexpr std::string_view kQwen3 = R"({
    "attention_bias": false, "attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu",
    "rope_scaling": null, "sliding_window": null, "use_sliding_window": false})";
constexpr std::string_view kGemma3 = R"({
    "attention_bias": false, "attention_dropout": 0.0, "attn_logit_softcapping": null,
    "cache_implementation": "hybrid", "final_logit_softcapping": null, "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 256,
    "rope_local_base_freq": 10000.0, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    "sliding_window": 1024, "sliding_window_pattern": 6})";

SyntheticPreset qwen3(std::string_view name, int64_t layers, int64_t hidden, int64_t feed_forward,
                      int64_t heads, bool tied) {
  return {.name = name,
          .family = "qwen3",
          .architecture = "Qwen3ForCausalLM",
          .layers = layers,
          .hidden = hidden,
          .feed_forward = feed_forward,
          .heads = heads,
          .kv_heads = 8,
          .head_size = 128,
          .vocabulary = 151936,
          .decodable = 151669,
          .context_length = 40960,
          .rope_theta = 1e6,
          .norm_eps = 1e-6,
          .tied = tied,
          .more = kQwen3};
}

std::string preset_names() {
  std::vector<std::string_view> names;
  for (const SyntheticPreset& preset : synthetic_presets()) names.push_back(preset.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Status set_key(std::string_view argument, OptionFields& fields, std::string_view part,
               std::set<std::string>& seen) {
  const size_t equals = part.find('=');
  const std::string key(part.substr(0, equals));
  const auto& list = fields.list();
  const auto field = std::find_if(list.begin(), list.end(),
                                  [&](const OptionField& field) { return field.name == key; });
  if (field == list.end()) {
    std::vector<std::string> names;
    for (const OptionField& known : list) names.push_back(known.name);
    return fail(ErrorCode::kInvalidArgument, "{} has no option {}; there are {}", argument,
                quote_name(key), fmt::join(names, ", "));
  }
  if (equals == std::string_view::npos) {
    return fail(ErrorCode::kInvalidArgument, "{}: {} needs a value, {}={}", argument, key, key,
                field->range_text());
  }
  if (!seen.insert(key).second) {
    return fail(ErrorCode::kInvalidArgument, "{}: {} is given twice", argument, key);
  }
  const Status set = set_option(*field, part.substr(equals + 1));
  if (set) return {};
  // Here it is no flag: "vocab: 12x is not ...".
  const std::string flag = field->flag();
  std::string message = set.error().message;
  if (message.starts_with(flag)) message.replace(0, flag.size(), key);
  return fail_in(argument, {set.error().code, std::move(message)});
}

}  // namespace

const std::vector<SyntheticPreset>& synthetic_presets() {
  static const std::vector<SyntheticPreset> presets = {
      {"llama-3.1-8b", "llama", "LlamaForCausalLM", 32, 4096, 14336, 32, 8, 128, 128256, 128256,
       131072, 5e5, 1e-5, false, kLlama},
      qwen3("qwen3-0.6b", 28, 1024, 3072, 16, true),
      qwen3("qwen3-4b", 36, 2560, 9728, 32, true),
      qwen3("qwen3-8b", 36, 4096, 12288, 32, false),
      qwen3("qwen3-14b", 40, 5120, 17408, 40, false),
      qwen3("qwen3-32b", 64, 5120, 25600, 64, false),
      {"gemma3-12b", "gemma3_text", "Gemma3ForCausalLM", 48, 3840, 15360, 16, 8, 256, 262208,
       262145, 131072, 1e6, 1e-6, true, kGemma3},
      {"mistral-7b", "mistral", "MistralForCausalLM", 32, 4096, 14336, 32, 8, 128, 32768, 32768,
       32768, 1e6, 1e-5, false, kMistral},
  };
  return presets;
}

OptionFields SyntheticSpec::fields() {
  OptionFields f;
  f.add("layers", layers, "number of layers; the preset's by default")
      .range(1, static_cast<double>(kMaxLayers));
  f.add("vocab", vocab, "rows of the embedding and the head; the preset's by default")
      .range(static_cast<double>(kMinSyntheticTokens), static_cast<double>(kMaxVocabulary));
  f.add("decodable", decodable,
        "tokens of the tokenizer; by default the preset's, or vocab where that is smaller")
      .range(static_cast<double>(kMinSyntheticTokens), static_cast<double>(kMaxSyntheticTokens));
  f.add("seed", seed, "another seed gives other weights").range(0, kMaxSeed);
  return f;
}

int64_t SyntheticSpec::decodable_width() const {
  if (decodable) return *decodable;
  return std::min({preset->decodable, vocabulary(), kMaxSyntheticTokens});
}

bool is_synthetic(std::string_view model_argument) {
  return model_argument.starts_with(kSyntheticPrefix);
}

Result<SyntheticSpec> parse_synthetic(std::string_view model_argument) {
  const std::string_view rest = model_argument.substr(kSyntheticPrefix.size());
  const size_t question = rest.find('?');
  const std::string_view name = rest.substr(0, question);
  SyntheticSpec spec;
  for (const SyntheticPreset& preset : synthetic_presets()) {
    if (preset.name == name) spec.preset = &preset;
  }
  if (spec.preset == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "there is no synthetic model {}; there are {}",
                quote_name(name), preset_names());
  }
  std::string_view keys = question == std::string_view::npos ? "" : rest.substr(question + 1);
  OptionFields fields = spec.fields();
  std::set<std::string> seen;
  while (!keys.empty()) {
    const size_t end = std::min(keys.find('&'), keys.size());
    ASHLAR_TRY(set_key(quote_name(model_argument), fields, keys.substr(0, end), seen));
    keys.remove_prefix(std::min(end + 1, keys.size()));
  }
  if (spec.decodable_width() > spec.vocabulary()) {
    return fail(ErrorCode::kInvalidArgument, "{}: decodable {} is more than the vocabulary of {}",
                quote_name(model_argument), spec.decodable_width(), spec.vocabulary());
  }
  return spec;
}

json synthetic_config(const SyntheticSpec& spec) {
  const SyntheticPreset& preset = *spec.preset;
  json config = json::parse(preset.more);
  config["architectures"] = {preset.architecture};
  config["model_type"] = preset.family;
  config["num_hidden_layers"] = spec.layer_count();
  config["hidden_size"] = preset.hidden;
  config["intermediate_size"] = preset.feed_forward;
  config["num_attention_heads"] = preset.heads;
  config["num_key_value_heads"] = preset.kv_heads;
  config["vocab_size"] = spec.vocabulary();
  config["max_position_embeddings"] = preset.context_length;
  config["rms_norm_eps"] = preset.norm_eps;
  config["rope_theta"] = preset.rope_theta;
  config["tie_word_embeddings"] = preset.tied;
  config["initializer_range"] = 0.02;
  config["torch_dtype"] = "bfloat16";
  config["use_cache"] = true;
  if (preset.family == "qwen3") config["max_window_layers"] = spec.layer_count();
  config["bos_token_id"] = kSyntheticBos;
  config["eos_token_id"] = {kSyntheticEos, kSyntheticImEnd};
  config["pad_token_id"] = kSyntheticEos;
  return config;
}

json synthetic_generation_config() {
  return {{"bos_token_id", kSyntheticBos},
          {"eos_token_id", {kSyntheticEos, kSyntheticImEnd}},
          {"pad_token_id", kSyntheticEos},
          {"do_sample", false}};
}

}  // namespace ashlar
