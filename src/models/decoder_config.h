// What the decoders of all families have in common in config.json, read once and checked: sizes,
// norms, rotary positions and the keys without effect. What a family adds is read in its own file;
// what nobody reads is refused.
//
// Two spellings exist for rotary positions, rope_theta with rope_scaling and, since transformers 5,
// rope_parameters; both are read here.
#ifndef ASHLAR_MODELS_DECODER_CONFIG_H_
#define ASHLAR_MODELS_DECODER_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/config_reader.h"
#include "models/model.h"
#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/model_builder.h"
#include "nn/rope.h"

namespace ashlar {

struct DecoderConfig {
  int64_t layers = 0;
  int64_t hidden = 0;          // D
  int64_t feed_forward = 0;    // F
  int64_t heads = 0;           // H
  int64_t kv_heads = 0;        // G, divides H
  int64_t head_size = 0;       // K, even
  int64_t vocabulary = 0;      // V
  int64_t context_length = 0;  // the checkpoint's
  double norm_eps = 0.0;
  bool tied = false;  // the head is the embedding
};

// What a family takes where its file is silent.
struct DecoderDefaults {
  bool tied = false;
  int64_t head_size = 0;  // 0: hidden size / heads
};

Result<DecoderConfig> read_decoder_config(const ConfigReader& config,
                                          const DecoderDefaults& defaults);

// Rotary positions of a family with one kind of them.
Result<RopeConfig> read_rope(const ConfigReader& config, double default_theta,
                             int64_t context_length);
// One object of scaling parameters: rope_scaling, rope_parameters or one layer type of it. A
// rope_theta inside wins.
Result<RopeConfig> read_rope_object(const ConfigReader& object, double theta,
                                    int64_t context_length);

// The window of each layer, 0 for those that see everything. `usual` says it for every layer;
// layer_types, where the configuration has them, overrule which layers slide, with `window` as the
// window of those.
Result<std::vector<int64_t>> read_windows(const ConfigReader& config, int64_t window,
                                          std::vector<int64_t> usual);
// The same for the keys that Qwen2 and Qwen3 share: use_sliding_window, sliding_window,
// max_window_layers.
Result<std::vector<int64_t>> read_qwen_windows(const ConfigReader& config, int64_t layers);

// The attention and feed-forward part that follow from the sizes: scale 1/sqrt(K), SiLU, no biases,
// windows or rope.
AttentionConfig attention_config(const DecoderConfig& config);
MlpConfig mlp_config(const DecoderConfig& config);

// Positions to prepare for: the checkpoint's, or fewer when the options say so.
int64_t usable_context(const DecoderConfig& config, const ModelOptions& options);

ModelInfo describe_model(const char* family, const DecoderConfig& config,
                         const ModelOptions& options, const ModelBuilder& builder);

}  // namespace ashlar

#endif  // ASHLAR_MODELS_DECODER_CONFIG_H_
