// Configurations and tensors of the random models. Matrices have deviation 1/sqrt(columns), the
// head four times that, so that the most likely tokens stand out.
#include "testing/random_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "tensor/dtype.h"
#include "testing/random.h"
#include "testing/safetensors_writer.h"

namespace ashlar {

namespace {

class ModelWriter {
 public:
  ModelWriter(const RandomModel& model, float noise, int32_t bad_token)
      : model_(model), noise_(noise), bad_token_(bad_token) {
    CHECK(bad_token < 0 || (!model.tied && noise == 0.0f));
  }

  std::vector<std::byte> build() {
    const bool gemma = model_.model_type == "gemma3_text";
    matrix("model.embed_tokens", model_.vocabulary, model_.hidden, model_.tied && !gemma ? 4 : 1,
           false, bad_token_);
    for (int64_t i = 0; i < model_.layers; ++i) layer(fmt::format("model.layers.{}.", i), gemma);
    norm("model.norm", model_.hidden, gemma ? 0.0f : 1.0f);
    if (!model_.tied) matrix("lm_head", model_.vocabulary, model_.hidden, 4);
    return writer_.build();
  }

 private:
  void layer(const std::string& prefix, bool gemma) {
    const float one = gemma ? 0.0f : 1.0f;
    const int64_t queries = model_.heads * model_.head_size;
    const int64_t keys = model_.kv_heads * model_.head_size;
    const bool bias = model_.model_type == "qwen2";
    norm(prefix + "input_layernorm", model_.hidden, one);
    norm(prefix + "post_attention_layernorm", model_.hidden, one);
    if (gemma) {
      norm(prefix + "pre_feedforward_layernorm", model_.hidden, one);
      norm(prefix + "post_feedforward_layernorm", model_.hidden, one);
    }
    if (gemma || model_.model_type == "qwen3") {
      norm(prefix + "self_attn.q_norm", model_.head_size, one);
      norm(prefix + "self_attn.k_norm", model_.head_size, one);
    }
    matrix(prefix + "self_attn.q_proj", queries, model_.hidden, 1, bias);
    matrix(prefix + "self_attn.k_proj", keys, model_.hidden, 1, bias);
    matrix(prefix + "self_attn.v_proj", keys, model_.hidden, 1, bias);
    matrix(prefix + "self_attn.o_proj", model_.hidden, queries);
    matrix(prefix + "mlp.gate_proj", model_.feed_forward, model_.hidden);
    matrix(prefix + "mlp.up_proj", model_.feed_forward, model_.hidden);
    matrix(prefix + "mlp.down_proj", model_.hidden, model_.feed_forward);
  }

  // Uniform numbers of this deviation are those up to sqrt(3) times it.
  void matrix(const std::string& name, int64_t rows, int64_t columns, float scale = 1.0f,
              bool bias = false, int32_t bad_row = -1) {
    const float most = scale * std::sqrt(3.0f / static_cast<float>(columns));
    const std::vector<float> values = random_floats(++seed_, rows * columns, most);
    Random noise(1000 + seed_);
    std::vector<BF16> rounded;
    std::vector<float> disturbed;
    for (const float value : values) {
      rounded.push_back(to_bf16(value));
      disturbed.push_back(to_float(rounded.back()) * (1.0f + noise.symmetric(noise_)));
    }
    if (bad_row >= 0) {
      std::fill_n(rounded.begin() + bad_row * columns, columns,
                  to_bf16(std::numeric_limits<float>::quiet_NaN()));
    }
    const int64_t shape[] = {rows, columns};
    if (noise_ == 0.0f) {
      writer_.add_tensor(name + ".weight", StorageType::kBF16, shape,
                         std::as_bytes(std::span(rounded)));
    } else {
      writer_.add_tensor(name + ".weight", StorageType::kF32, shape,
                         std::as_bytes(std::span(disturbed)));
    }
    if (bias) writer_.add_f32(name + ".bias", {rows}, random_floats(++seed_, rows, 0.5f));
  }

  void norm(const std::string& name, int64_t size, float around) {
    std::vector<float> values = random_floats(++seed_, size, 0.25f);
    for (float& value : values) value += around;
    writer_.add_f32(name + ".weight", {size}, values);
  }

  const RandomModel& model_;
  float noise_;
  int32_t bad_token_;
  uint64_t seed_ = 0;
  SafetensorsWriter writer_;
};

std::string config_of(const RandomModel& model) {
  return fmt::format(
      R"({{"model_type": "{}", "num_hidden_layers": {}, "hidden_size": {}, "intermediate_size": {},
"num_attention_heads": {}, "num_key_value_heads": {}, "head_dim": {}, "vocab_size": {},
"tie_word_embeddings": {}, "max_position_embeddings": 1024, "rms_norm_eps": 1e-6{}}})",
      model.model_type, model.layers, model.hidden, model.feed_forward, model.heads, model.kv_heads,
      model.head_size, model.vocabulary, model.tied ? "true" : "false", model.more);
}

}  // namespace

const std::vector<RandomModel>& random_models() {
  static const std::vector<RandomModel> models = {
      {"llama", "llama", 3, 192, 320, 3, 1, 64, 333, false,
       R"(, "hidden_act": "silu", "rope_theta": 10000.0, "rope_scaling": {"rope_type": "llama3",
"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
"original_max_position_embeddings": 256})"},
      {"mistral", "mistral", 2, 200, 328, 4, 2, 96, 401, false,
       R"(, "hidden_act": "silu", "rope_theta": 10000.0, "sliding_window": 40)"},
      {"qwen2", "qwen2", 2, 256, 384, 2, 2, 128, 320, true,
       R"(, "hidden_act": "silu", "rope_theta": 1000000.0)"},
      {"qwen3", "qwen3", 3, 136, 264, 8, 2, 128, 512, true,
       R"(, "hidden_act": "silu", "rope_theta": 1000000.0)"},
      {"gemma3", "gemma3_text", 7, 152, 320, 4, 1, 256, 515, true,
       R"(, "hidden_activation": "gelu_pytorch_tanh", "rope_theta": 1000000.0,
"rope_local_base_freq": 10000.0, "sliding_window": 48, "sliding_window_pattern": 6,
"query_pre_attn_scalar": 256)"},
  };
  return models;
}

std::string write_random_model(const TempDir& folder, const RandomModel& model, float noise,
                               int32_t bad_token) {
  const std::string name = noise == 0.0f ? model.name : model.name + ".noise";
  folder.write(name + "/config.json", config_of(model));
  folder.write(name + "/model.safetensors", ModelWriter(model, noise, bad_token).build());
  return (folder.path() / name).string();
}

}  // namespace ashlar
