// Adds an operation, a weight format and a model the way docs/architecture.md says, and runs the
// result.
//
// The files under tests/walkthrough/src stand where they would stand under src/;
// cmake/walkthrough.cmake puts one line for each into copies of the real tables and links this
// program with those copies. If adding a thing ever needs a change in a second place, this stops
// compiling.
#include <gtest/gtest.h>

#include <cmath>

#include "formats/format.h"
#include "models/model.h"
#include "testing/forward.h"
#include "testing/safetensors_writer.h"
#include "testing/temp_dir.h"

namespace ashlar {
namespace {

constexpr int64_t kHidden = 2;
constexpr float kEmbedding[] = {1, 0, 0, 1, 2, -1};  // [3 2]
constexpr int8_t kCodes[] = {2, 1, -4, 3};           // [2 2]
constexpr float kScales[] = {0.5f, 0.25f};
constexpr float kNorm[] = {1, 2};

// What the toy computes for one token, in double, from the definition in models/toy.cc.
std::vector<double> expected(int token) {
  double mixed[2];
  for (int n = 0; n < 2; ++n) {
    mixed[n] = 0;
    for (int k = 0; k < 2; ++k)
      mixed[n] += kEmbedding[token * 2 + k] * kCodes[n * 2 + k] * kScales[n];
    mixed[n] = std::fmin(std::fmax(mixed[n], -1.5), 1.5);
  }
  const double rms = std::sqrt((mixed[0] * mixed[0] + mixed[1] * mixed[1]) / 2 + 1e-6);
  std::vector<double> logits;
  for (int v = 0; v < 3; ++v) {
    logits.push_back(
        (mixed[0] * kNorm[0] * kEmbedding[v * 2] + mixed[1] * kNorm[1] * kEmbedding[v * 2 + 1]) /
        rms);
  }
  return logits;
}

void write_toy(const TempDir& dir, std::string_view config) {
  SafetensorsWriter writer;
  writer.add_f32("embed.weight", {3, kHidden}, kEmbedding);
  writer.add_tensor("mix.weight", StorageType::kI8, std::vector<int64_t>{kHidden, kHidden},
                    std::as_bytes(std::span(kCodes)));
  writer.add_f32("mix.weight_scale", {kHidden}, kScales);
  writer.add_f32("norm.weight", {kHidden}, kNorm);
  dir.write("model.safetensors", writer.build());
  dir.write("config.json", config);
}

TEST(Walkthrough, AToyOpFormatAndModelRun) {
  const TempDir dir;
  write_toy(dir, R"({"model_type": "toy", "hidden_size": 2, "vocab_size": 3, "limit": 1.5})");
  auto harness =
      ForwardHarness::load(dir.path().string(), {.positions = 32, .rows = 32, .sequences = 1});
  ASSERT_TRUE(harness.has_value()) << harness.error().message;
  EXPECT_EQ((*harness)->model().info().weight_formats.find("int8 rows") != std::string::npos, true)
      << (*harness)->model().info().weight_formats;
  const int32_t tokens[] = {0, 2, 1};
  const std::vector<float> logits = (*harness)->logits(tokens);
  ASSERT_EQ(logits.size(), 9u);
  for (int t = 0; t < 3; ++t) {
    const std::vector<double> wanted = expected(tokens[t]);
    for (int v = 0; v < 3; ++v)
      EXPECT_NEAR(logits[static_cast<size_t>(t * 3 + v)], wanted[static_cast<size_t>(v)], 1e-5);
  }
}

TEST(Walkthrough, TheRefusalsComeForFree) {
  const TempDir dir;
  write_toy(
      dir,
      R"({"model_type": "toy", "hidden_size": 2, "vocab_size": 3, "limit": 1.5, "dropout": 0.1})");
  const auto harness = ForwardHarness::load(dir.path().string(), {});
  ASSERT_FALSE(harness.has_value());
  EXPECT_NE(harness.error().message.find("dropout"), std::string::npos) << harness.error().message;
}

TEST(Walkthrough, TheTablesListTheToys) {
  bool family = false;
  for (const ModelFamily* one : model_families()) family |= std::string_view(one->name) == "toy";
  bool format = false;
  for (const WeightFormat* one : weight_formats()) format |= one->name() == "int8 rows";
  EXPECT_TRUE(family && format);
}

}  // namespace
}  // namespace ashlar
