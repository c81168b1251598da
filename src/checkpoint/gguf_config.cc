// Translation of GGUF metadata to Hugging Face's configuration keys, and the facts that GGUF leaves
// to the reader: defaults of missing keys, which layers of gemma3 see everything, its query scale,
// and whether the head is tied.
#include "checkpoint/gguf_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/quote.h"

namespace ashlar {
namespace {

using nlohmann::json;

constexpr int64_t kMaxSetting = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxLayers = 1 << 16;
// The gemma3 of 27B parameters, known by its depth, scales queries by embedding / heads instead of
// the head size.
constexpr int64_t kGemma3LargeLayers = 62;

struct Renamed {
  std::string_view gguf;  // without the architecture's prefix
  const char* hf;
};

constexpr Renamed kIntegers[] = {
    {"block_count", "num_hidden_layers"},
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"attention.sliding_window", "sliding_window"},
};

// These may be arrays with one number a layer.
constexpr Renamed kLayerIntegers[] = {
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
};

constexpr Renamed kNumbers[] = {
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"rope.freq_base", "rope_theta"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
};

struct Family {
  std::string_view architecture;
  const char* model_type;
  const char* class_name;
};

constexpr Family kFamilies[] = {
    {"llama", "llama", "LlamaForCausalLM"},
    {"qwen2", "qwen2", "Qwen2ForCausalLM"},
    {"qwen3", "qwen3", "Qwen3ForCausalLM"},
    {"gemma3", "gemma3_text", "Gemma3ForCausalLM"},
};

json to_json(const GgufValue& value) {
  if (const auto boolean = value.as_bool()) return *boolean;
  if (const auto integer = value.as_integer()) return *integer;
  if (const auto number = value.as_float()) return *number;
  if (const auto text = value.as_string(); text && is_printable_ascii(*text)) return *text;
  return value.describe();
}

// The double that the shortest decimal form of an f32 denotes: 1e-06 instead
// of 9.999999974752427e-07. It is what the original configuration said, and it rounds to the same
// f32.
double shortest_decimal(float value) {
  const std::string text = fmt::format("{}", value);
  double out = value;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

class ConfigBuilder {
 public:
  ConfigBuilder(const GgufFile& file, const std::string& architecture)
      : file_(file), prefix_(architecture + "."), gemma3_(architecture == "gemma3") {
    set_family(architecture);
  }

  Result<json> build() {
    ASHLAR_TRY(copy_renamed());
    ASHLAR_TRY(set_heads());
    ASHLAR_TRY(set_rope());
    ASHLAR_TRY(set_vocabulary());
    set_facts_from_tensors();
    if (gemma3_) ASHLAR_TRY(set_gemma3());
    keep_unknown_keys();
    return std::move(config_);
  }

 private:
  void set_family(const std::string& architecture) {
    config_["model_type"] = architecture;
    for (const Family& family : kFamilies) {
      if (family.architecture != architecture) continue;
      config_["model_type"] = family.model_type;
      config_["architectures"] = json::array({family.class_name});
    }
    if (gemma3_) {
      config_["hidden_activation"] = "gelu_pytorch_tanh";
    } else {
      config_["hidden_act"] = "silu";
    }
  }

  // Marks a key as understood and gives its value.
  const GgufValue* take(std::string_view key) {
    const auto [at, inserted] = taken_.insert(prefix_ + std::string(key));
    return file_.find(*at);
  }

  tl::unexpected<Error> wrong(std::string_view key, const GgufValue& value,
                              std::string_view expected) const {
    return fail(ErrorCode::kCorrupt, "{}: key {}{} must be {}, but is {}", file_.name(), prefix_,
                key, expected, value.describe());
  }

  Result<std::optional<int64_t>> integer(std::string_view key) {
    const GgufValue* value = take(key);
    if (value == nullptr) return std::optional<int64_t>();
    const std::optional<int64_t> number = value->as_integer();
    if (!number || *number < 0 || *number > kMaxSetting) {
      return wrong(key, *value, "an integer from 0 to 2^31 - 1");
    }
    return number;
  }

  Result<std::optional<double>> number(std::string_view key) {
    const GgufValue* value = take(key);
    if (value == nullptr) return std::optional<double>();
    const std::optional<double> number = value->as_float();
    if (!number || !std::isfinite(*number)) return wrong(key, *value, "a finite number");
    if (value->type() != GgufType::kF32) return number;
    return std::optional<double>(shortest_decimal(static_cast<float>(*number)));
  }

  Result<std::optional<std::string>> name(std::string_view key) {
    const GgufValue* value = take(key);
    if (value == nullptr) return std::optional<std::string>();
    const std::optional<std::string_view> text = value->as_string();
    if (!text || !is_printable_ascii(*text)) return wrong(key, *value, "a plain string");
    return std::optional<std::string>(*text);
  }

  Status copy_renamed() {
    for (const Renamed& entry : kIntegers) {
      ASHLAR_ASSIGN(const auto value, integer(entry.gguf));
      if (value) config_[entry.hf] = *value;
    }
    for (const Renamed& entry : kLayerIntegers) ASHLAR_TRY(copy_per_layer(entry));
    for (const Renamed& entry : kNumbers) {
      ASHLAR_ASSIGN(const auto value, number(entry.gguf));
      if (value) config_[entry.hf] = *value;
    }
    const int64_t layers = config_.value("num_hidden_layers", int64_t{0});
    if (layers > kMaxLayers) {
      return fail(ErrorCode::kCorrupt, "{}: {}block_count is {}; at most {} layers are supported",
                  file_.name(), prefix_, layers, kMaxLayers);
    }
    return {};
  }

  // One number, or one a layer: an array of equal numbers becomes one number, others stay an array.
  Status copy_per_layer(const Renamed& entry) {
    const GgufValue* value = take(entry.gguf);
    if (value == nullptr) return {};
    if (!value->is_array()) {
      ASHLAR_ASSIGN(const auto single, integer(entry.gguf));
      config_[entry.hf] = *single;
      return {};
    }
    const auto numbers = value->as_integers();
    if (!numbers || numbers->empty() || numbers->size() > static_cast<size_t>(kMaxLayers)) {
      return wrong(entry.gguf, *value, "an integer or one integer a layer");
    }
    for (const int64_t number : *numbers) {
      if (number < 0 || number > kMaxSetting) {
        return wrong(entry.gguf, *value, "integers from 0 to 2^31 - 1");
      }
    }
    const bool equal = std::all_of(numbers->begin(), numbers->end(),
                                   [&](int64_t number) { return number == numbers->front(); });
    if (equal) {
      config_[entry.hf] = numbers->front();
    } else {
      config_[entry.hf] = *numbers;
    }
    return {};
  }

  int64_t integer_or_zero(const char* hf_key) const {
    const auto at = config_.find(hf_key);
    return at != config_.end() && at->is_number_integer() ? at->get<int64_t>() : 0;
  }

  Status set_heads() {
    if (!config_.contains("num_key_value_heads") && config_.contains("num_attention_heads")) {
      config_["num_key_value_heads"] = config_["num_attention_heads"];
    }
    const int64_t heads = integer_or_zero("num_attention_heads");
    const int64_t hidden = integer_or_zero("hidden_size");
    ASHLAR_ASSIGN(std::optional<int64_t> key_length, integer("attention.key_length"));
    if (!key_length && heads > 0) {
      if (hidden % heads != 0) {
        return fail(ErrorCode::kCorrupt,
                    "{}: {}embedding_length {} is no multiple of {} heads, and there is no "
                    "{}attention.key_length",
                    file_.name(), prefix_, hidden, heads, prefix_);
      }
      key_length = hidden / heads;
    }
    ASHLAR_ASSIGN(const auto value_length, integer("attention.value_length"));
    if (key_length) config_["head_dim"] = *key_length;
    // Heads whose values have another size than their keys stay visible, and are refused by the
    // model.
    if (value_length && value_length != key_length)
      taken_.erase(prefix_ + "attention.value_length");
    return {};
  }

  Status set_rope() {
    if (!config_.contains("rope_theta")) config_["rope_theta"] = 10000.0;
    ASHLAR_ASSIGN(const auto rotated, integer("rope.dimension_count"));
    const int64_t head_dim = integer_or_zero("head_dim");
    if (rotated && head_dim > 0 && *rotated != head_dim) {
      config_["partial_rotary_factor"] =
          static_cast<double>(*rotated) / static_cast<double>(head_dim);
    }
    ASHLAR_ASSIGN(const auto type, name("rope.scaling.type"));
    ASHLAR_ASSIGN(auto factor, number("rope.scaling.factor"));
    ASHLAR_ASSIGN(const auto old_factor, number("rope.scale_linear"));
    ASHLAR_ASSIGN(const auto original, integer("rope.scaling.original_context_length"));
    take("rope.scaling.finetuned");  // says how the model was trained, not how it runs
    if (!factor) factor = old_factor;
    // A factor without a type means linear, as other readers of the format have it.
    const std::string kind = type.value_or("linear");
    if (kind == "none" || (kind == "linear" && factor.value_or(1.0) == 1.0)) return {};
    json scaling = {{"rope_type", kind}, {"factor", factor.value_or(1.0)}};
    if (kind != "linear" && original) scaling["original_max_position_embeddings"] = *original;
    if (kind == "yarn") ASHLAR_TRY(set_yarn(scaling));
    config_["rope_scaling"] = std::move(scaling);
    return {};
  }

  Status set_yarn(json& scaling) {
    constexpr Renamed kYarn[] = {{"rope.scaling.yarn_beta_fast", "beta_fast"},
                                 {"rope.scaling.yarn_beta_slow", "beta_slow"}};
    for (const Renamed& entry : kYarn) {
      ASHLAR_ASSIGN(const auto value, number(entry.gguf));
      if (value) scaling[entry.hf] = *value;
    }
    // The file's factor multiplies the usual attention factor; Hugging Face's replaces it.
    ASHLAR_ASSIGN(const auto attention, number("rope.scaling.attn_factor"));
    const double factor = scaling["factor"].get<double>();
    if (attention && *attention != 1.0 && factor > 0) {
      const double usual = factor > 1.0 ? 0.1 * std::log(factor) + 1.0 : 1.0;
      scaling["attention_factor"] = *attention * usual;
    }
    return {};
  }

  Status set_vocabulary() {
    ASHLAR_ASSIGN(const auto stated, integer("vocab_size"));
    const GgufTensor* embedding = find_tensor("token_embd.weight");
    const GgufValue* tokens = file_.find("tokenizer.ggml.tokens");
    if (stated) {
      config_["vocab_size"] = *stated;
    } else if (embedding != nullptr && embedding->shape.size() == 2) {
      config_["vocab_size"] = embedding->shape[0];
    } else if (tokens != nullptr) {
      config_["vocab_size"] = tokens->size();
    }
    return {};
  }

  const GgufTensor* find_tensor(std::string_view name) const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }

  void set_facts_from_tensors() {
    config_["tie_word_embeddings"] = find_tensor("output.weight") == nullptr;
    // Hugging Face's switches for biases on all projections of a part; qwen2 has none for its fixed
    // q, k, v biases.
    if (find_tensor("blk.0.attn_output.bias") != nullptr) config_["attention_bias"] = true;
    if (find_tensor("blk.0.ffn_down.bias") != nullptr) config_["mlp_bias"] = true;
  }

  Status set_gemma3() {
    const int64_t layers = integer_or_zero("num_hidden_layers");
    ASHLAR_ASSIGN(const auto local_base, number("rope.freq_base_swa"));
    config_["rope_local_base_freq"] = local_base.value_or(10000.0);
    const int64_t heads = integer_or_zero("num_attention_heads");
    const bool large = layers == kGemma3LargeLayers && heads > 0;
    config_["query_pre_attn_scalar"] =
        large ? integer_or_zero("hidden_size") / heads : integer_or_zero("head_dim");
    return set_gemma3_layer_types(layers);
  }

  // Every sixth layer sees everything, unless the file says otherwise.
  Status set_gemma3_layer_types(int64_t layers) {
    constexpr std::string_view kKey = "attention.sliding_window_pattern";
    std::vector<bool> windowed;
    const GgufValue* value = take(kKey);
    if (value != nullptr && value->is_array()) {
      windowed = value->as_bools().value_or(std::vector<bool>());
      if (windowed.size() != static_cast<size_t>(layers)) {
        return wrong(kKey, *value, fmt::format("an integer or {} booleans", layers));
      }
    } else {
      ASHLAR_ASSIGN(const auto stated, integer(kKey));
      const int64_t period = stated.value_or(6);
      if (period == 0) return wrong(kKey, *value, "a positive integer");
      for (int64_t i = 0; i < layers; ++i) windowed.push_back(i % period != period - 1);
    }
    json types = json::array();
    for (const bool window : windowed) {
      types.push_back(window ? "sliding_attention" : "full_attention");
    }
    config_["layer_types"] = std::move(types);
    return {};
  }

  void keep_unknown_keys() {
    for (const GgufEntry& entry : file_.entries()) {
      if (!entry.key.starts_with(prefix_) || taken_.contains(std::string(entry.key))) continue;
      config_[std::string(entry.key)] = to_json(entry.value);
    }
  }

  const GgufFile& file_;
  const std::string prefix_;
  const bool gemma3_;
  std::set<std::string> taken_;
  json config_ = json::object();
};

}  // namespace

Result<std::string> gguf_architecture(const GgufFile& file) {
  if (const GgufValue* type = file.find("general.type")) {
    if (type->as_string() != std::string_view("model")) {
      return fail(ErrorCode::kUnsupported, "{}: this GGUF file holds no model: general.type is {}",
                  file.name(), type->describe());
    }
  }
  const GgufValue* value = file.find("general.architecture");
  if (value == nullptr) {
    return fail(ErrorCode::kCorrupt, "{}: the key general.architecture is missing", file.name());
  }
  const std::optional<std::string_view> name = value->as_string();
  constexpr size_t kMaxNameBytes = 64;
  if (!name || name->empty() || name->size() > kMaxNameBytes || !is_printable_ascii(*name)) {
    return fail(ErrorCode::kCorrupt, "{}: general.architecture must be a plain name, but is {}",
                file.name(), value->describe());
  }
  return std::string(*name);
}

Result<json> gguf_config(const GgufFile& file, const std::string& architecture) {
  return ConfigBuilder(file, architecture).build();
}

}  // namespace ashlar
