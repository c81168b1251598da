// Honour or refuse: every configuration value that a family reads changes the logits or the refusal
// names it, and so does a tensor too many, too few or of another shape. Both spellings of rotary
// positions and of layer patterns mean the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "testing/cuda_stand_in.h"
#include "testing/forward.h"
#include "testing/paths.h"
#include "testing/random_model.h"
#include "testing/temp_dir.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A copy of a tiny folder whose configuration was changed: a null removes a key.
class EditedModel {
 public:
  EditedModel(const std::string& name, const json& changes) {
    const fs::path from = source_dir() / "tests/golden/tiny" / name;
    json config = json::parse(std::ifstream(from / "config.json"));
    for (const auto& [key, value] : changes.items()) {
      if (value.is_null()) {
        config.erase(key);
      } else {
        config[key] = value;
      }
    }
    for (const auto& entry : fs::directory_iterator(from)) {
      if (entry.path().filename() != "config.json") {
        fs::create_symlink(entry.path(), dir_.path() / entry.path().filename());
      }
    }
    dir_.write("config.json", config.dump());
  }

  Result<std::unique_ptr<ForwardHarness>> load(const ForwardOptions& options = {}) const {
    return ForwardHarness::load(dir_.path().string(), options);
  }
  std::string refusal() const {
    const auto harness = load();
    return harness.has_value() ? "" : harness.error().message;
  }
  std::vector<float> logits() const {
    auto harness = load();
    EXPECT_TRUE(harness.has_value()) << harness.error().message;
    if (!harness.has_value()) return {};
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < 40; ++i) tokens.push_back(i * 7 % 60);
    return (*harness)->logits(tokens);
  }

 private:
  TempDir dir_;
};

struct Edit {
  const char* model;
  json changes;
  const char* named;  // what the refusal must contain
};

TEST(Refusals, NameTheKeyThatIsNotHonoured) {
  const std::vector<Edit> edits = {
      {"llama", {{"model_type", "mamba"}}, "model_type"},
      {"llama", {{"frobnicate", 1}}, "frobnicate"},
      {"llama", {{"quantization_config", {{"quant_method", "gptq"}}}}, "quantization_config"},
      {"llama", {{"hidden_act", "relu"}}, "hidden_act"},
      {"llama", {{"sliding_window", 16}}, "sliding_window"},
      {"llama", {{"partial_rotary_factor", 0.5}}, "partial_rotary_factor"},
      {"llama",
       {{"rope_parameters", {{"rope_type", "longrope"}, {"rope_theta", 1e4}}}},
       "rope_type"},
      {"llama",
       {{"rope_parameters", {{"rope_theta", 1e4}, {"mystery", 2}}}},
       "rope_parameters.mystery"},
      {"llama", {{"rope_theta", 5e5}}, "rope_theta"},
      {"llama", {{"num_key_value_heads", 3}}, "num_key_value_heads"},
      {"llama", {{"head_dim", 23}}, "head_dim"},
      {"llama", {{"hidden_size", 0}}, "hidden_size"},
      {"llama", {{"hidden_size", int64_t{1} << 40}}, "hidden_size"},
      {"llama", {{"num_hidden_layers", -1}}, "num_hidden_layers"},
      {"llama", {{"rms_norm_eps", "small"}}, "rms_norm_eps"},
      {"llama", {{"vocab_size", nullptr}}, "vocab_size"},
      {"llama_linear",
       {{"rope_scaling", {{"type", "linear"}, {"rope_type", "yarn"}, {"factor", 2.0}}}},
       "type"},
      {"llama_linear", {{"rope_scaling", {{"type", "linear"}, {"factor", 0.0}}}}, "factor"},
      {"llama_llama3",
       {{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 4.0}}}},
       "low_freq_factor"},
      {"qwen2", {{"use_mrope", true}}, "use_mrope"},
      {"qwen2", {{"use_sliding_window", true}, {"sliding_window", 0}}, "sliding_window"},
      {"qwen2", {{"layer_types", {"full_attention"}}}, "layer_types"},
      {"qwen2",
       {{"layer_types", {"full_attention", "sliding_attention", "full_attention"}}},
       "layer_types"},
      {"qwen3", {{"layer_types", {"full_attention", "linear_attention"}}}, "layer_types"},
      {"gemma3", {{"attn_logit_softcapping", 50.0}}, "attn_logit_softcapping"},
      {"gemma3", {{"final_logit_softcapping", 30.0}}, "final_logit_softcapping"},
      {"gemma3", {{"use_bidirectional_attention", true}}, "use_bidirectional_attention"},
      {"gemma3", {{"vision_config", json::object()}}, "vision_config"},
      {"gemma3", {{"hidden_activation", "gelu"}}, "hidden_activation"},
      {"gemma3", {{"sliding_window", nullptr}}, "sliding_window"},
      {"gemma3", {{"query_pre_attn_scalar", 0}}, "query_pre_attn_scalar"},
  };
  for (const Edit& edit : edits) {
    const std::string refusal = EditedModel(edit.model, edit.changes).refusal();
    EXPECT_NE(refusal.find(edit.named), std::string::npos)
        << edit.model << " " << edit.changes << ": " << refusal;
  }
}

TEST(Refusals, NameTheTensorThatDoesNotFit) {
  const std::vector<Edit> edits = {
      {"llama", {{"num_hidden_layers", 3}}, "model.layers.2.input_layernorm.weight"},
      {"llama", {{"num_hidden_layers", 1}}, "model.layers.1."},
      {"llama", {{"intermediate_size", 80}}, "model.layers.0.mlp.gate_proj.weight"},
      {"llama", {{"hidden_size", 96}}, "model.embed_tokens.weight"},
      {"llama", {{"attention_bias", true}}, "model.layers.0.self_attn.q_proj.bias"},
      {"llama", {{"tie_word_embeddings", true}}, "lm_head.weight"},
      {"llama_bias", {{"mlp_bias", false}}, "mlp."},
      {"qwen3", {{"model_type", "qwen2"}, {"head_dim", 32}}, "bias"},
      {"qwen2",
       {{"model_type", "llama"}, {"use_sliding_window", nullptr}, {"max_window_layers", nullptr}},
       "bias"},
  };
  for (const Edit& edit : edits) {
    const std::string refusal = EditedModel(edit.model, edit.changes).refusal();
    EXPECT_NE(refusal.find(edit.named), std::string::npos)
        << edit.model << " " << edit.changes << ": " << refusal;
  }
}

TEST(Honoured, EveryNumberChangesTheLogits) {
  const std::vector<Edit> edits = {
      {"llama", {{"rms_norm_eps", 0.1}}, ""},
      {"llama_linear", {{"rope_theta", 2e4}}, ""},
      {"llama_linear", {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 3.0}}}}, ""},
      {"llama_yarn", {{"rope_parameters", {{"rope_type", "yarn"}, {"factor", 4.0}}}}, ""},
      {"mistral", {{"sliding_window", 8}}, ""},
      {"mistral_window", {{"sliding_window", 15}}, ""},
      {"qwen2", {{"use_sliding_window", true}, {"sliding_window", 8}}, ""},
      {"qwen3",
       {{"use_sliding_window", true}, {"sliding_window", 8}, {"max_window_layers", 0}},
       ""},
      {"gemma3", {{"query_pre_attn_scalar", 25}}, ""},
      {"gemma3", {{"rope_local_base_freq", 11000.0}}, ""},
      {"gemma3", {{"rope_theta", 1.1e6}}, ""},
      {"gemma3", {{"sliding_window_pattern", 5}}, ""},
      {"gemma3", {{"rope_scaling", nullptr}}, ""},
  };
  for (const Edit& edit : edits) {
    EXPECT_NE(EditedModel(edit.model, edit.changes).logits(),
              EditedModel(edit.model, json::object()).logits())
        << edit.model << " " << edit.changes;
  }
}

TEST(Honoured, BothSpellingsMeanTheSame) {
  const json sliding = "sliding_attention", full = "full_attention";
  const std::vector<Edit> edits = {
      {"llama", {{"rope_parameters", nullptr}, {"rope_theta", 1e4}}, ""},
      {"llama_linear",
       {{"rope_theta", nullptr},
        {"rope_scaling", nullptr},
        {"rope_parameters", {{"rope_type", "linear"}, {"factor", 2.5}, {"rope_theta", 1e4}}}},
       ""},
      {"mistral", {{"sliding_window", 512}}, ""},
      {"qwen3", {{"layer_types", {full, full}}}, ""},
      {"gemma3",
       {{"rope_theta", nullptr},
        {"rope_local_base_freq", nullptr},
        {"rope_scaling", nullptr},
        {"sliding_window_pattern", nullptr},
        {"layer_types", {sliding, sliding, sliding, sliding, sliding, full, sliding}},
        {"rope_parameters",
         {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1e6}}},
          {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}}}},
       ""},
  };
  for (const Edit& edit : edits) {
    EXPECT_EQ(EditedModel(edit.model, edit.changes).logits(),
              EditedModel(edit.model, json::object()).logits())
        << edit.model << " " << edit.changes;
  }
}

TEST(Models, MaskColumnsThatNothingDecodes) {
  const EditedModel model("qwen3", json::object());
  auto all = model.load();
  auto masked = model.load({.decodable = 300});
  ASSERT_TRUE(all.has_value() && masked.has_value());
  EXPECT_EQ((*masked)->model().info().decodable, 300);
  const std::vector<int32_t> tokens = {5, 6, 7};
  const std::vector<float> wanted = (*all)->logits(tokens);
  const std::vector<float> logits = (*masked)->logits(tokens);
  for (size_t i = 0; i < logits.size(); ++i) {
    EXPECT_EQ(logits[i], i % 320 < 300 ? wanted[i] : -std::numeric_limits<float>::infinity()) << i;
  }
}

TEST(Models, TellWhatTheyAreAndStayWithinTheirScratch) {
  for (const char* name : {"llama", "mistral_window", "qwen2", "qwen3", "gemma3"}) {
    const EditedModel edited(name, json::object());
    auto harness = edited.load({.rows = 200});
    ASSERT_TRUE(harness.has_value()) << harness.error().message;
    const Model& model = (*harness)->model();
    EXPECT_EQ(model.info().context_length, 512) << name;
    EXPECT_EQ(static_cast<int64_t>(model.state_needs().paged.size()), model.info().layers) << name;
    EXPECT_GT(model.info().weight_bytes, 0) << name;
    const std::vector<int32_t> tokens(200, 3);
    (*harness)->logits(tokens);
    EXPECT_LE(static_cast<int64_t>((*harness)->workspace_peak_bytes()),
              model.workspace_bytes(200, 200))
        << name;
  }
}

TEST(Models, DeclareWindowsOfTheirLayers) {
  auto harness = EditedModel("gemma3", json::object()).load();
  ASSERT_TRUE(harness.has_value());
  std::vector<int64_t> windows;
  for (const PagedState& state : (*harness)->model().state_needs().paged)
    windows.push_back(state.window);
  EXPECT_EQ(windows, (std::vector<int64_t>{16, 16, 16, 16, 16, 0, 16}));
}

TEST(Models, TapsSeeEveryLayer) {
  auto harness = EditedModel("llama", json::object()).load();
  ASSERT_TRUE(harness.has_value());
  std::vector<std::string> names;
  (*harness)->set_tap([&](std::string_view name, TensorView value) {
    names.emplace_back(name);
    EXPECT_EQ(value.shape(), (Shape{2, 64}));
  });
  (*harness)->logits(std::vector<int32_t>{1, 2});
  EXPECT_EQ(names, (std::vector<std::string>{"layers.0", "layers.1"}));
}

// What a CUDA device does not take, and that models of all families load onto one.
TEST(Refusals, NameWhatACudaDeviceDoesNotTake) {
  CudaStandIn device;
  const EditedModel tiny("llama", {});
  const auto half = tiny.load({.kv_type = DType::kF16, .device = &device});
  ASSERT_FALSE(half.has_value());
  EXPECT_NE(half.error().message.find("keys and values are bf16 on cuda"), std::string::npos)
      << half.error().message;
  const auto head = tiny.load({.kv_type = DType::kBF16, .device = &device});
  ASSERT_FALSE(head.has_value());
  EXPECT_NE(head.error().message.find("a head size of 24 does not run on a CUDA device"),
            std::string::npos)
      << head.error().message;
  TempDir dir;
  for (const RandomModel& model : random_models()) {
    const auto loaded = ForwardHarness::load(write_random_model(dir, model),
                                             {.kv_type = DType::kBF16, .device = &device});
    ASSERT_TRUE(loaded.has_value()) << model.name << ": " << loaded.error().message;
    EXPECT_EQ((*loaded)->model().info().weight_formats, "BF16 100 %");
    EXPECT_EQ((*loaded)->model().paged_shapes().front().type, DType::kBF16);
    EXPECT_EQ((*loaded)->model().info().most_sequences, 1024);
  }
}

}  // namespace
}  // namespace ashlar
