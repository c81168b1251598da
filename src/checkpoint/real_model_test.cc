// The fetched checkpoints: what their metadata says, counted by type, and how long opening takes.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "testing/paths.h"

namespace ashlar {
namespace {

std::map<std::string_view, int> tensors_by_type(const Checkpoint& checkpoint) {
  std::map<std::string_view, int> out;
  for (const StoredTensor& tensor : checkpoint.tensors()) ++out[storage_name(tensor.type)];
  return out;
}

TEST(RealModel, SmolLm2) {
  if (!std::filesystem::exists(smollm2_path())) GTEST_SKIP() << "no " << smollm2_path();
  const auto opened = Checkpoint::open(smollm2_path().string(), {});
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  const Checkpoint& checkpoint = **opened;
  EXPECT_EQ(tensors_by_type(checkpoint),
            (std::map<std::string_view, int>{{"F32", 61}, {"Q4_1", 210}, {"Q8_0", 1}}));
  EXPECT_EQ(checkpoint.config()["hidden_size"], 576);
  EXPECT_EQ(checkpoint.config()["head_dim"], 64);
  EXPECT_EQ(checkpoint.config()["rope_theta"], 100000.0);
  EXPECT_EQ(checkpoint.config()["rms_norm_eps"], 1e-5);
  EXPECT_EQ(checkpoint.config()["tie_word_embeddings"], true);
  EXPECT_TRUE(checkpoint.qk_rows_interleaved());
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    EXPECT_TRUE(tensor.name.starts_with("model.")) << tensor.name;
  }
}

TEST(RealModel, Gemma3) {
  if (!std::filesystem::exists(gemma3_path())) GTEST_SKIP() << "no " << gemma3_path();
  const auto start = std::chrono::steady_clock::now();
  const auto opened = Checkpoint::open(gemma3_path().string(), {});
  const auto elapsed = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  const Checkpoint& checkpoint = **opened;
  EXPECT_EQ(checkpoint.tensors().size(), 236u);
  EXPECT_EQ(checkpoint.config()["model_type"], "gemma3_text");
  EXPECT_EQ(checkpoint.config()["query_pre_attn_scalar"], 256);
  EXPECT_EQ(checkpoint.config()["layer_types"][17], "full_attention");
  EXPECT_TRUE(checkpoint.norm_weights_include_one());
  EXPECT_NE(checkpoint.find("model.layers.17.pre_feedforward_layernorm.weight"), nullptr);
  const GgufValue* tokens = checkpoint.gguf()->find("tokenizer.ggml.tokens");
  ASSERT_NE(tokens, nullptr);
  EXPECT_EQ(tokens->as_strings()->size(), 262144u);
  EXPECT_EQ((*tokens->as_strings())[2], "<bos>");
  // 6 ms on an idle machine; the limit leaves room for a cold disk and busy cores.
  EXPECT_LT(elapsed, std::chrono::milliseconds(500));
}

}  // namespace
}  // namespace ashlar
