// Synthetic checkpoints: the bits of the weights, their coming and going, the shapes of the presets
// and what is refused. Pinned values come from a separate computation of the formula in
// synthetic_values.h with Python's whole numbers.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/synthetic_spec.h"
#include "checkpoint/synthetic_tensor.h"

namespace ashlar {
namespace {

std::shared_ptr<Checkpoint> open(const std::string& argument, TensorUse use = TensorUse::kValues) {
  auto checkpoint = Checkpoint::open(argument, {}, use);
  EXPECT_TRUE(checkpoint.has_value()) << argument << ": " << checkpoint.error().message;
  return checkpoint.has_value() ? std::move(*checkpoint) : nullptr;
}

std::string error_of(const std::string& argument) {
  const auto checkpoint = Checkpoint::open(argument, {});
  EXPECT_FALSE(checkpoint.has_value()) << argument;
  return checkpoint.has_value() ? "" : checkpoint.error().message;
}

uint64_t checksum(const StoredTensor& tensor) {
  uint64_t hash = 0xcbf29ce484222325u;
  const std::byte* data = tensor.data();
  for (size_t i = 0; i < tensor.bytes; ++i) {
    hash = (hash ^ static_cast<uint8_t>(data[i])) * 0x100000001b3u;
  }
  return hash;
}

constexpr const char* kSmall = "synthetic:qwen3-0.6b?layers=1&vocab=512";
constexpr const char* kNorm = "model.layers.0.input_layernorm.weight";
constexpr const char* kKeys = "model.layers.0.self_attn.k_proj.weight";

TEST(Synthetic, BitsArePinned) {
  const auto checkpoint = open(kSmall);
  ASSERT_NE(checkpoint, nullptr);
  const StoredTensor* keys = checkpoint->find(kKeys);
  ASSERT_NE(keys, nullptr);
  EXPECT_EQ(keys->synthetic->values().key, 0x97ff67a6405a155u);
  const uint16_t first[] = {0x3ad6, 0x3cb0, 0x3d71, 0xbc85, 0xbba3, 0xbc7d};
  EXPECT_EQ(std::memcmp(keys->data(), first, sizeof(first)), 0);
  EXPECT_EQ(checksum(*keys), 0xcb5428cd71f16542u);
  EXPECT_EQ(checksum(*checkpoint->find(kNorm)), 0xc075b3afcee956bdu);
  const auto other = open(std::string(kSmall) + "&seed=7");
  EXPECT_EQ(checksum(*other->find(kNorm)), 0xf7f483435768451cu);
}

TEST(Synthetic, ValuesAreRoughlyGaussian) {
  const auto checkpoint = open(kSmall);
  const StoredTensor& keys = *checkpoint->find(kKeys);
  const auto* bits = reinterpret_cast<const uint16_t*>(keys.data());
  double sum = 0.0, squares = 0.0, far = 0.0;
  const double deviation = 1.0 / std::sqrt(1024.0);
  for (int64_t i = 0; i < keys.elements(); ++i) {
    const double value = std::bit_cast<float>(static_cast<uint32_t>(bits[i]) << 16);
    sum += value;
    squares += value * value;
    far += std::abs(value) > 2.0 * deviation;
  }
  const auto count = static_cast<double>(keys.elements());
  EXPECT_NEAR(sum / count, 0.0, 5.0 * deviation / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(squares / count), deviation, 0.01 * deviation);
  EXPECT_NEAR(far / count, 0.0435, 0.005);  // of the sum of four uniform numbers; Gaussian: 0.0455
}

TEST(Synthetic, TensorsComeAgainAfterBeingGivenBack) {
  const auto checkpoint = open(kSmall);
  const StoredTensor& keys = *checkpoint->find(kKeys);
  const std::byte* data = keys.data();
  give_back_pages({data + 100, 100'000});  // meant for files, harmless here
  EXPECT_EQ(checksum(keys), 0xcb5428cd71f16542u);
  keys.give_back();
  keys.give_back();
  EXPECT_EQ(keys.data(), data);
  EXPECT_EQ(checksum(keys), 0xcb5428cd71f16542u);
}

TEST(Synthetic, ShapesAloneCostNothing) {
  const auto checkpoint = open("synthetic:qwen3-32b", TensorUse::kShapes);
  ASSERT_NE(checkpoint, nullptr);
  const StoredTensor& head = *checkpoint->find("lm_head.weight");
  EXPECT_EQ(head.shape, (std::vector<int64_t>{151936, 5120}));
  EXPECT_EQ(head.data()[head.bytes - 1], std::byte{0});
  EXPECT_EQ(checkpoint->find(kNorm)->data()[1], std::byte{0});
}

// What the publishers count, Gemma without its vision part.
TEST(Synthetic, PresetsHaveTheParametersOfTheirModels) {
  const std::map<std::string, int64_t> parameters = {
      {"llama-3.1-8b", 8'030'261'248}, {"qwen3-0.6b", 596'049'920},   {"qwen3-4b", 4'022'468'096},
      {"qwen3-8b", 8'190'735'360},     {"qwen3-14b", 14'768'307'200}, {"qwen3-32b", 32'762'123'264},
      {"gemma3-12b", 11'766'034'176},  {"mistral-7b", 7'248'023'552}};
  EXPECT_EQ(synthetic_presets().size(), parameters.size());
  for (const auto& [name, expected] : parameters) {
    const auto checkpoint = open(fmt::format("synthetic:{}", name), TensorUse::kShapes);
    ASSERT_NE(checkpoint, nullptr);
    int64_t count = 0;
    for (const StoredTensor& tensor : checkpoint->tensors()) count += tensor.elements();
    EXPECT_EQ(count, expected) << name;
  }
}

TEST(Synthetic, OptionsChangeTheConfiguration) {
  const auto checkpoint =
      open("synthetic:gemma3-12b?layers=7&vocab=300&decodable=280&seed=3", TensorUse::kShapes);
  ASSERT_NE(checkpoint, nullptr);
  EXPECT_EQ(checkpoint->container(), "synthetic");
  EXPECT_EQ(checkpoint->config()["num_hidden_layers"], 7);
  EXPECT_EQ(checkpoint->config()["vocab_size"], 300);
  EXPECT_EQ(checkpoint->find("model.embed_tokens.weight")->shape,
            (std::vector<int64_t>{300, 3840}));
  EXPECT_EQ(checkpoint->find("model.layers.7.input_layernorm.weight"), nullptr);
  const auto tokenizer = checkpoint->optional_text("tokenizer.json").value();
  ASSERT_TRUE(tokenizer.has_value());
  EXPECT_EQ(nlohmann::json::parse(*tokenizer)["model"]["vocab"].size(), 280u);
  EXPECT_EQ(checkpoint->optional_text("vocab.json").value(), std::nullopt);
}

TEST(Synthetic, RefusesByName) {
  const struct {
    const char* rest;
    const char* message;
  } cases[] = {
      {"llama", "there is no synthetic model \"llama\"; there are llama-3.1-8b, qwen3-0.6b, "},
      {"", "there is no synthetic model \"\""},
      {"qwen3-4b?colour=red", "no option \"colour\"; there are layers, vocab, decodable, seed"},
      {"qwen3-4b?layers=few", "layers: 'few' is not a whole number, 1 to 256"},
      {"qwen3-4b?layers=0", "layers: 0 is out of range, 1 to 256"},
      {"qwen3-4b?layers", "layers needs a value, layers=1 to 256"},
      {"qwen3-4b?layers=", "layers: '' is not a whole number"},
      {"qwen3-4b?seed=1&seed=2", "seed is given twice"},
      {"qwen3-4b?seed=1&&layers=2", "no option \"\""},
      {"qwen3-4b?vocab=100", "vocab: 100 is out of range, 260 to "},
      {"qwen3-4b?vocab=512&decodable=513", "decodable 513 is more than the vocabulary of 512"},
  };
  for (const auto& c : cases) {
    const std::string message = error_of(std::string(kSyntheticPrefix) + c.rest);
    EXPECT_NE(message.find(c.message), std::string::npos) << c.rest << ": " << message;
  }
}

}  // namespace
}  // namespace ashlar
