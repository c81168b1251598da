// What a model argument "synthetic:PRESET?key=value&..." asks for: a preset with the shapes of a
// public model, some of its sizes changed, and the configuration that follows.
//
// Only what the words say is decided here; weights and tokenizer are made elsewhere. An unknown
// preset, key or value is refused by name with the list of what there is.
#ifndef ASHLAR_CHECKPOINT_SYNTHETIC_SPEC_H_
#define ASHLAR_CHECKPOINT_SYNTHETIC_SPEC_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/options.h"

namespace ashlar {

inline constexpr std::string_view kSyntheticPrefix = "synthetic:";

struct SyntheticPreset {
  std::string_view name;
  std::string_view family;  // model_type
  std::string_view architecture;
  int64_t layers;
  int64_t hidden;
  int64_t feed_forward;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_size;
  int64_t vocabulary;
  int64_t decodable;  // tokens of the public model's tokenizer
  int64_t context_length;
  double rope_theta;
  double norm_eps;
  bool tied;
  std::string_view more;  // further keys of config.json, as a JSON object
};

const std::vector<SyntheticPreset>& synthetic_presets();

struct SyntheticSpec {
  const SyntheticPreset* preset = nullptr;
  std::optional<int64_t> layers, vocab, decodable;
  int64_t seed = 1;

  OptionFields fields();  // the keys behind '?'
  int64_t layer_count() const { return layers.value_or(preset->layers); }
  int64_t vocabulary() const { return vocab.value_or(preset->vocabulary); }
  int64_t decodable_width() const;
};

bool is_synthetic(std::string_view model_argument);
Result<SyntheticSpec> parse_synthetic(std::string_view model_argument);

// As config.json and generation_config.json of the public model, with the tokens of the generated
// tokenizer.
nlohmann::json synthetic_config(const SyntheticSpec& spec);
nlohmann::json synthetic_generation_config();

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_SYNTHETIC_SPEC_H_
