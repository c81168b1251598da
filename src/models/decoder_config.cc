// Reads and checks the configuration keys that all decoder families share. Limits are far above any
// real model and low enough that products of sizes fit in 63 bits.
#include "models/decoder_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ashlar {

namespace {

constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxSize = int64_t{1} << 24;  // of any one extent
constexpr int64_t kMaxHeadSize = 4096;

Result<int64_t> checked_size(const ConfigReader& config, std::string_view key, int64_t value,
                             int64_t limit) {
  if (value < 1 || value > limit) {
    return config.refuse(key, fmt::format("must be between 1 and {}", limit));
  }
  return value;
}

Result<int64_t> size(const ConfigReader& config, std::string_view key, int64_t limit = kMaxSize) {
  ASHLAR_ASSIGN(const int64_t value, config.require<int64_t>(key));
  return checked_size(config, key, value, limit);
}

// Keys that describe the file, its training or text outside the network.
void ignore_common(const ConfigReader& config) {
  config.ignore({"_attn_implementation",   "_attn_implementation_autoset",
                 "_name_or_path",          "architectures",
                 "attention_dropout",      "bos_token_id",
                 "cache_implementation",   "dtype",
                 "eos_token_id",           "initializer_range",
                 "is_llama_config",        "model_type",
                 "pad_token_id",           "pretraining_tp",
                 "tokenizer_class",        "torch_dtype",
                 "transformers.js_config", "transformers_version",
                 "unk_token_id",           "unsloth_fixed",
                 "unsloth_version",        "use_cache"});
}

Result<double> positive(const ConfigReader& object, std::string_view key, double fallback) {
  ASHLAR_ASSIGN(const double value, object.optional<double>(key, fallback));
  if (!(value > 0.0) || value > 1e12) return object.refuse(key, "must be positive");
  return value;
}

Result<RopeScaling> scaling_kind(const ConfigReader& object) {
  ASHLAR_ASSIGN(const auto rope_type, object.optional<std::string>("rope_type"));
  ASHLAR_ASSIGN(const auto old_type, object.optional<std::string>("type"));
  if (rope_type && old_type && *rope_type != *old_type) {
    return object.refuse("type", fmt::format("contradicts rope_type {}", *rope_type));
  }
  const std::string kind = rope_type ? *rope_type : old_type.value_or("default");
  if (kind == "default") return RopeScaling::kNone;
  if (kind == "linear") return RopeScaling::kLinear;
  if (kind == "llama3") return RopeScaling::kLlama3;
  if (kind == "yarn") return RopeScaling::kYarn;
  return object.refuse(rope_type ? "rope_type" : "type",
                       "only default, linear, llama3 and yarn are supported");
}

Status read_llama3(const ConfigReader& object, RopeConfig& rope) {
  ASHLAR_ASSIGN(rope.low_freq_factor, object.require<double>("low_freq_factor"));
  ASHLAR_ASSIGN(rope.high_freq_factor, object.require<double>("high_freq_factor"));
  if (!(rope.low_freq_factor > 0.0) || !(rope.high_freq_factor > rope.low_freq_factor)) {
    return object.refuse("high_freq_factor", "must be above low_freq_factor, and both positive");
  }
  return {};
}

Status read_yarn(const ConfigReader& object, RopeConfig& rope) {
  ASHLAR_ASSIGN(rope.beta_fast, positive(object, "beta_fast", 32.0));
  ASHLAR_ASSIGN(rope.beta_slow, positive(object, "beta_slow", 1.0));
  ASHLAR_ASSIGN(rope.truncate, object.optional<bool>("truncate", true));
  ASHLAR_ASSIGN(const auto mscale, object.optional<double>("mscale"));
  ASHLAR_ASSIGN(const auto mscale_all_dim, object.optional<double>("mscale_all_dim"));
  ASHLAR_ASSIGN(rope.attention_factor,
                positive(object, "attention_factor",
                         yarn_attention_factor(rope.factor, mscale, mscale_all_dim)));
  return {};
}

}  // namespace

Result<DecoderConfig> read_decoder_config(const ConfigReader& config,
                                          const DecoderDefaults& defaults) {
  DecoderConfig out;
  ASHLAR_ASSIGN(out.layers, size(config, "num_hidden_layers", kMaxLayers));
  ASHLAR_ASSIGN(out.hidden, size(config, "hidden_size"));
  ASHLAR_ASSIGN(out.feed_forward, size(config, "intermediate_size"));
  ASHLAR_ASSIGN(out.heads, size(config, "num_attention_heads", kMaxHeadSize));
  ASHLAR_ASSIGN(const int64_t kv_heads, config.optional<int64_t>("num_key_value_heads", out.heads));
  ASHLAR_ASSIGN(out.kv_heads, checked_size(config, "num_key_value_heads", kv_heads, out.heads));
  if (out.heads % out.kv_heads != 0) {
    return config.refuse("num_key_value_heads",
                         fmt::format("must divide the {} attention heads", out.heads));
  }
  ASHLAR_ASSIGN(const auto stated, config.optional<int64_t>("head_dim"));
  if (!stated && defaults.head_size == 0 && out.hidden % out.heads != 0) {
    return config.refuse("hidden_size",
                         fmt::format("must be a multiple of the {} attention heads", out.heads));
  }
  const int64_t usual = defaults.head_size > 0 ? defaults.head_size : out.hidden / out.heads;
  ASHLAR_ASSIGN(out.head_size,
                checked_size(config, "head_dim", stated.value_or(usual), kMaxHeadSize));
  if (out.head_size % 2 != 0) return config.refuse("head_dim", "must be even");
  ASHLAR_ASSIGN(out.vocabulary, size(config, "vocab_size"));
  ASHLAR_ASSIGN(out.context_length, size(config, "max_position_embeddings"));
  ASHLAR_ASSIGN(out.norm_eps, config.require<double>("rms_norm_eps"));
  if (!(out.norm_eps >= 0.0) || out.norm_eps > 1.0)
    return config.refuse("rms_norm_eps", "must be between 0 and 1");
  ASHLAR_ASSIGN(out.tied, config.optional<bool>("tie_word_embeddings", defaults.tied));
  ASHLAR_TRY(config.expect("partial_rotary_factor", 1.0));
  ignore_common(config);
  return out;
}

Result<RopeConfig> read_rope_object(const ConfigReader& object, double theta,
                                    int64_t context_length) {
  RopeConfig rope;
  ASHLAR_ASSIGN(rope.theta, positive(object, "rope_theta", theta));
  if (rope.theta <= 1.0) return object.refuse("rope_theta", "must be above 1");
  ASHLAR_TRY(object.expect("partial_rotary_factor", 1.0));
  ASHLAR_ASSIGN(rope.scaling, scaling_kind(object));
  if (rope.scaling == RopeScaling::kNone) return rope;
  ASHLAR_ASSIGN(const double factor, object.require<double>("factor"));
  if (!(factor >= 1.0) || factor > 1e6) return object.refuse("factor", "must be between 1 and 1e6");
  rope.factor = factor;
  if (rope.scaling == RopeScaling::kLinear) return rope;
  ASHLAR_ASSIGN(rope.original_context, positive(object, "original_max_position_embeddings",
                                                static_cast<double>(context_length)));
  if (rope.scaling == RopeScaling::kLlama3) {
    ASHLAR_TRY(read_llama3(object, rope));
  } else {
    ASHLAR_TRY(read_yarn(object, rope));
  }
  return rope;
}

Result<RopeConfig> read_rope(const ConfigReader& config, double default_theta,
                             int64_t context_length) {
  ASHLAR_ASSIGN(const auto theta, config.optional<double>("rope_theta"));
  if (theta && !(*theta > 1.0 && *theta <= 1e12))
    return config.refuse("rope_theta", "must be above 1");
  ASHLAR_ASSIGN(const auto parameters, config.optional_object("rope_parameters"));
  if (parameters) {
    ASHLAR_ASSIGN(RopeConfig rope,
                  read_rope_object(*parameters, theta.value_or(default_theta), context_length));
    if (theta && *theta != rope.theta)
      return config.refuse("rope_theta", "contradicts rope_parameters");
    return rope;
  }
  ASHLAR_ASSIGN(const auto scaling, config.optional_object("rope_scaling"));
  if (scaling) return read_rope_object(*scaling, theta.value_or(default_theta), context_length);
  RopeConfig rope;
  rope.theta = theta.value_or(default_theta);
  return rope;
}

Result<std::vector<int64_t>> read_windows(const ConfigReader& config, int64_t window,
                                          std::vector<int64_t> usual) {
  ASHLAR_ASSIGN(const auto types, config.optional<std::vector<std::string>>("layer_types"));
  if (!types) return usual;
  if (types->size() != usual.size()) {
    return config.refuse("layer_types",
                         fmt::format("must have one entry for each of {} layers", usual.size()));
  }
  for (size_t i = 0; i < usual.size(); ++i) {
    const bool slides = (*types)[i] == "sliding_attention";
    if (!slides && (*types)[i] != "full_attention") {
      return config.refuse("layer_types", "may have full_attention and sliding_attention only");
    }
    if (slides && window <= 0)
      return config.refuse("layer_types", "has sliding layers, but there is no window");
    usual[i] = slides ? window : 0;
  }
  return usual;
}

Result<std::vector<int64_t>> read_qwen_windows(const ConfigReader& config, int64_t layers) {
  ASHLAR_ASSIGN(const bool used, config.optional<bool>("use_sliding_window", false));
  ASHLAR_ASSIGN(const int64_t stated, config.optional<int64_t>("sliding_window", 4096));
  ASHLAR_ASSIGN(const int64_t first, config.optional<int64_t>("max_window_layers", 28));
  if (used && stated < 1) return config.refuse("sliding_window", "must be positive");
  const int64_t window = used ? stated : 0;
  std::vector<int64_t> usual(static_cast<size_t>(layers), 0);
  for (int64_t i = std::max<int64_t>(0, first); i < layers; ++i)
    usual[static_cast<size_t>(i)] = window;
  return read_windows(config, window, std::move(usual));
}

AttentionConfig attention_config(const DecoderConfig& config) {
  AttentionConfig out;
  out.hidden = config.hidden;
  out.heads = config.heads;
  out.kv_heads = config.kv_heads;
  out.head_size = config.head_size;
  out.scale = 1.0 / std::sqrt(static_cast<double>(config.head_size));
  out.norm_eps = config.norm_eps;
  return out;
}

MlpConfig mlp_config(const DecoderConfig& config) {
  MlpConfig out;
  out.hidden = config.hidden;
  out.feed_forward = config.feed_forward;
  return out;
}

int64_t usable_context(const DecoderConfig& config, const ModelOptions& options) {
  return options.context_length > 0 ? std::min(options.context_length, config.context_length)
                                    : config.context_length;
}

}  // namespace ashlar
