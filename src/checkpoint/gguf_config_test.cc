// GGUF metadata as Hugging Face configuration: each family's facts, defaults, rope scalings, and
// refusals.
#include "checkpoint/gguf_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "checkpoint/gguf_names.h"
#include "testing/gguf_writer.h"

namespace ashlar {
namespace {

using nlohmann::json;

const std::vector<float> kValues(32, 1.0f);

GgufWriter small_model(const std::string& arch) {
  GgufWriter writer;
  writer.set_string("general.architecture", arch);
  writer.set_u32(arch + ".block_count", 2);
  writer.set_u32(arch + ".context_length", 512);
  writer.set_u64(arch + ".embedding_length", 8);
  writer.set_u32(arch + ".feed_forward_length", 16);
  writer.set_u32(arch + ".attention.head_count", 2);
  writer.set_f32(arch + ".attention.layer_norm_rms_epsilon", 1e-6f);
  writer.add_f32("token_embd.weight", {4, 8}, kValues);
  return writer;
}

Result<json> config_of(const GgufWriter& writer) {
  const std::vector<std::byte> bytes = writer.build();
  ASHLAR_ASSIGN(const GgufFile file, GgufFile::parse(bytes, "m.gguf"));
  ASHLAR_ASSIGN(const std::string architecture, gguf_architecture(file));
  return gguf_config(file, architecture);
}

json config_with(const std::string& arch, const std::function<void(GgufWriter&)>& change) {
  GgufWriter writer = small_model(arch);
  change(writer);
  const Result<json> config = config_of(writer);
  EXPECT_TRUE(config.has_value()) << config.error().message;
  return config.value_or(json());
}

std::string error_with(const std::function<void(GgufWriter&)>& change) {
  GgufWriter writer = small_model("llama");
  change(writer);
  const Result<json> config = config_of(writer);
  return config ? "accepted" : config.error().message;
}

void nothing(GgufWriter&) {}

TEST(GgufConfig, Llama) {
  const json expected = {
      {"model_type", "llama"},    {"architectures", {"LlamaForCausalLM"}},
      {"hidden_size", 8},         {"intermediate_size", 16},
      {"num_hidden_layers", 2},   {"num_attention_heads", 2},
      {"num_key_value_heads", 2}, {"head_dim", 4},
      {"rms_norm_eps", 1e-6},     {"rope_theta", 10000.0},
      {"vocab_size", 4},          {"max_position_embeddings", 512},
      {"hidden_act", "silu"},     {"tie_word_embeddings", true},
  };
  EXPECT_EQ(config_with("llama", nothing), expected);
}

TEST(GgufConfig, FamilyNames) {
  EXPECT_EQ(config_with("qwen2", nothing)["model_type"], "qwen2");
  EXPECT_EQ(config_with("qwen3", nothing)["architectures"], json({"Qwen3ForCausalLM"}));
  const json other = config_with("bert", nothing);
  EXPECT_EQ(other["model_type"], "bert");
  EXPECT_FALSE(other.contains("architectures"));
}

TEST(GgufConfig, HeadsAndTensors) {
  const json config = config_with("llama", [](GgufWriter& w) {
    w.set_u32("llama.attention.head_count_kv", 1);
    w.set_u32("llama.attention.key_length", 6);
    w.set_u32("llama.attention.value_length", 6);
    w.set_u32("llama.rope.dimension_count", 3);
    w.set_u32("llama.vocab_size", 5);
    w.add_f32("output.weight", {4, 8}, kValues);
    w.add_f32("blk.0.attn_output.bias", {32}, kValues);
  });
  EXPECT_EQ(config["num_key_value_heads"], 1);
  EXPECT_EQ(config["head_dim"], 6);
  EXPECT_EQ(config["partial_rotary_factor"], 0.5);
  EXPECT_EQ(config["vocab_size"], 5);
  EXPECT_EQ(config["tie_word_embeddings"], false);
  EXPECT_EQ(config["attention_bias"], true);
  EXPECT_FALSE(config.contains("llama.attention.value_length"));
}

TEST(GgufConfig, NumbersPerLayer) {
  const json equal = config_with("llama", [](GgufWriter& w) {
    w.set_i32s("llama.attention.head_count_kv", std::vector<int32_t>{1, 1});
  });
  EXPECT_EQ(equal["num_key_value_heads"], 1);
  const json different = config_with("llama", [](GgufWriter& w) {
    w.set_i32s("llama.attention.head_count_kv", std::vector<int32_t>{1, 2});
  });
  EXPECT_EQ(different["num_key_value_heads"], json({1, 2}));
}

TEST(GgufConfig, UnknownKeysKeepTheirName) {
  const json config = config_with("llama", [](GgufWriter& w) {
    w.set_f32("llama.logit_scale", 0.5f);
    w.set_u32("llama.attention.key_length", 4);
    w.set_u32("llama.attention.value_length", 8);
    w.set_u32("other.key", 1);
    w.set_string("llama.note", "a\x01");
  });
  EXPECT_EQ(config["llama.logit_scale"], 0.5);
  EXPECT_EQ(config["llama.attention.value_length"], 8);
  EXPECT_EQ(config["llama.note"], "string \"a\\x01\"");
  EXPECT_FALSE(config.contains("other.key"));
}

TEST(GgufConfig, LinearScaling) {
  const json expected = {{"rope_type", "linear"}, {"factor", 8.0}};
  const auto with_type = [](GgufWriter& w) {
    w.set_string("llama.rope.scaling.type", "linear");
    w.set_f32("llama.rope.scaling.factor", 8.0f);
  };
  EXPECT_EQ(config_with("llama", with_type)["rope_scaling"], expected);
  const auto old_key = [](GgufWriter& w) { w.set_f32("llama.rope.scale_linear", 8.0f); };
  EXPECT_EQ(config_with("llama", old_key)["rope_scaling"], expected);
  const auto none = [](GgufWriter& w) {
    w.set_string("llama.rope.scaling.type", "none");
    w.set_f32("llama.rope.scaling.factor", 8.0f);
  };
  EXPECT_FALSE(config_with("llama", none).contains("rope_scaling"));
}

TEST(GgufConfig, YarnScaling) {
  const json config = config_with("qwen3", [](GgufWriter& w) {
    w.set_string("qwen3.rope.scaling.type", "yarn");
    w.set_f32("qwen3.rope.scaling.factor", 4.0f);
    w.set_u32("qwen3.rope.scaling.original_context_length", 32768);
    w.set_bool("qwen3.rope.scaling.finetuned", true);
    w.set_f32("qwen3.rope.scaling.yarn_beta_fast", 16.0f);
    w.set_f32("qwen3.rope.scaling.attn_factor", 2.0f);
    w.set_f32("qwen3.rope.scaling.yarn_log_multiplier", 0.1f);
  });
  const json& scaling = config["rope_scaling"];
  EXPECT_EQ(scaling["rope_type"], "yarn");
  EXPECT_EQ(scaling["factor"], 4.0);
  EXPECT_EQ(scaling["original_max_position_embeddings"], 32768);
  EXPECT_EQ(scaling["beta_fast"], 16.0);
  EXPECT_DOUBLE_EQ(scaling["attention_factor"], 2.0 * (0.1 * std::log(4.0) + 1.0));
  EXPECT_TRUE(config.contains("qwen3.rope.scaling.yarn_log_multiplier"));
}

TEST(GgufConfig, Gemma3) {
  const json config = config_with("gemma3", [](GgufWriter& w) {
    w.set_u32("gemma3.attention.key_length", 16);
    w.set_u32("gemma3.attention.value_length", 16);
    w.set_u32("gemma3.attention.sliding_window", 32);
    w.set_f32("gemma3.rope.freq_base", 1e6f);
  });
  EXPECT_EQ(config["model_type"], "gemma3_text");
  EXPECT_EQ(config["hidden_activation"], "gelu_pytorch_tanh");
  EXPECT_FALSE(config.contains("hidden_act"));
  EXPECT_EQ(config["query_pre_attn_scalar"], 16);
  EXPECT_EQ(config["rope_theta"], 1e6);
  EXPECT_EQ(config["rope_local_base_freq"], 10000.0);
  EXPECT_EQ(config["sliding_window"], 32);
  EXPECT_EQ(config["layer_types"], json({"sliding_attention", "sliding_attention"}));
}

TEST(GgufConfig, Gemma3LayersAndQueryScaleOfTheLargest) {
  GgufWriter writer;
  writer.set_string("general.architecture", "gemma3");
  writer.set_u32("gemma3.block_count", 62);
  writer.set_u32("gemma3.embedding_length", 5376);
  writer.set_u32("gemma3.attention.head_count", 32);
  writer.set_u32("gemma3.attention.key_length", 128);
  const json config = config_of(writer).value();
  EXPECT_EQ(config["query_pre_attn_scalar"], 168);
  for (size_t i = 0; i < 62; ++i) {
    EXPECT_EQ(config["layer_types"][i], i % 6 == 5 ? "full_attention" : "sliding_attention");
  }
}

TEST(GgufConfig, RefusesNumbersThatNoModelHas) {
  EXPECT_EQ(
      error_with([](GgufWriter& w) { w.set_i32("llama.attention.sliding_window", -1); }),
      "m.gguf: key llama.attention.sliding_window must be an integer from 0 to 2^31 - 1, but is "
      "i32 -1");
  EXPECT_NE(error_with([](GgufWriter& w) {
              w.set_u64("llama.vocab_size", uint64_t{1} << 63);
            }).find("llama.vocab_size must be an integer"),
            std::string::npos);
  EXPECT_NE(error_with([](GgufWriter& w) {
              w.set_string("llama.rope.freq_base", "x");
            }).find("llama.rope.freq_base must be a finite number, but is string \"x\""),
            std::string::npos);
  EXPECT_NE(error_with([](GgufWriter& w) {
              w.set_f32("llama.rope.freq_base", NAN);
            }).find("finite number"),
            std::string::npos);
  GgufWriter deep;
  deep.set_string("general.architecture", "gemma3");
  deep.set_u32("gemma3.block_count", 2'000'000'000);
  EXPECT_NE(config_of(deep).error().message.find("gemma3.block_count is 2000000000"),
            std::string::npos);
}

TEST(GgufConfig, RefusesFilesThatHoldNoModel) {
  GgufWriter adapter;
  adapter.set_string("general.type", "adapter");
  EXPECT_EQ(config_of(adapter).error().message,
            "m.gguf: this GGUF file holds no model: general.type is string \"adapter\"");
  EXPECT_NE(config_of(GgufWriter()).error().message.find("general.architecture is missing"),
            std::string::npos);
}

TEST(GgufNames, Translation) {
  EXPECT_EQ(hf_tensor_name("llama", "token_embd.weight"), "model.embed_tokens.weight");
  EXPECT_EQ(hf_tensor_name("llama", "output_norm.weight"), "model.norm.weight");
  EXPECT_EQ(hf_tensor_name("llama", "output.weight"), "lm_head.weight");
  EXPECT_EQ(hf_tensor_name("qwen2", "blk.12.attn_q.bias"), "model.layers.12.self_attn.q_proj.bias");
  EXPECT_EQ(hf_tensor_name("qwen3", "blk.0.attn_k_norm.weight"),
            "model.layers.0.self_attn.k_norm.weight");
  EXPECT_EQ(hf_tensor_name("llama", "blk.0.attn_output.weight"),
            "model.layers.0.self_attn.o_proj.weight");
  EXPECT_EQ(hf_tensor_name("llama", "blk.0.ffn_down.weight"),
            "model.layers.0.mlp.down_proj.weight");
}

TEST(GgufNames, NormsOfGemma3) {
  EXPECT_EQ(hf_tensor_name("llama", "blk.1.ffn_norm.weight"),
            "model.layers.1.post_attention_layernorm.weight");
  EXPECT_EQ(hf_tensor_name("gemma3", "blk.1.ffn_norm.weight"),
            "model.layers.1.pre_feedforward_layernorm.weight");
  EXPECT_EQ(hf_tensor_name("gemma3", "blk.1.post_attention_norm.weight"),
            "model.layers.1.post_attention_layernorm.weight");
  EXPECT_EQ(hf_tensor_name("gemma3", "blk.1.post_ffw_norm.weight"),
            "model.layers.1.post_feedforward_layernorm.weight");
  EXPECT_EQ(hf_tensor_name("gemma3", "blk.1.attn_norm.weight"),
            "model.layers.1.input_layernorm.weight");
}

TEST(GgufNames, UnknownNamesStay) {
  for (const char* name : {"rope_freqs.weight", "blk.00.ffn_norm.weight", "blk.-1.ffn_norm.weight",
                           "blk.0.post_ffw_norm.weight", "blk.0", "blk..ffn_norm.weight", "x", "",
                           "blk.0.ffn_gate.3.weight", "blk.9999999.ffn_norm.weight"}) {
    EXPECT_EQ(hf_tensor_name("llama", name), name);
  }
}

}  // namespace
}  // namespace ashlar
