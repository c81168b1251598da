// Synthetic models through the model files: every preset builds, and the logits of one are those
// that transformers computes in float32 from its export (tests/golden/synthetic).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "checkpoint/safetensors.h"
#include "checkpoint/synthetic_spec.h"
#include "device/device.h"
#include "models/model.h"
#include "testing/forward.h"
#include "testing/paths.h"

namespace ashlar {
namespace {

template <class T>
std::vector<T> values_of(const SafetensorsFile& file, std::string_view name) {
  for (const SafetensorsTensor& tensor : file.tensors()) {
    if (tensor.name != name) continue;
    std::vector<T> values(tensor.bytes.size() / sizeof(T));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

// Without the values, so that the largest takes no memory.
TEST(SyntheticModels, EveryPresetBuilds) {
  const auto device = new_cpu_device(1);
  for (const SyntheticPreset& preset : synthetic_presets()) {
    const std::string argument = fmt::format("{}{}", kSyntheticPrefix, preset.name);
    const auto checkpoint = Checkpoint::open(argument, {}, TensorUse::kShapes);
    ASSERT_TRUE(checkpoint.has_value()) << argument;
    ModelOptions options;
    options.context_length = 64;
    options.decodable = preset.decodable;
    const auto model = load_model(*checkpoint, *device, options);
    ASSERT_TRUE(model.has_value()) << argument << ": " << model.error().message;
    EXPECT_EQ((*model)->info().layers, preset.layers);
    EXPECT_EQ((*model)->info().vocabulary, preset.vocabulary);
    const auto& paged = (*model)->state_needs().paged;
    const auto windowed = std::count_if(paged.begin(), paged.end(),
                                        [](const PagedState& state) { return state.window > 0; });
    EXPECT_EQ(windowed, preset.name == "gemma3-12b" ? 40 : 0) << argument;
  }
}

TEST(SyntheticModels, LogitsAreThoseOfTransformers) {
  const auto file =
      SafetensorsFile::open((source_dir() / "tests/golden/synthetic/logits.safetensors").string());
  ASSERT_TRUE(file.has_value()) << file.error().message;
  const auto tokens = values_of<int32_t>(*file, "tokens");
  const auto expected = values_of<float>(*file, "logits");
  auto harness = ForwardHarness::load(file->metadata().at("model"), {});
  ASSERT_TRUE(harness.has_value()) << harness.error().message;
  const std::vector<float> logits = (*harness)->logits(tokens);
  ASSERT_EQ(logits.size(), expected.size());
  double largest = 0.0;
  for (size_t i = 0; i < logits.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(logits[i]) - expected[i]));
  }
  EXPECT_LT(largest, 1e-4);  // logits spread over about ±6
}

}  // namespace
}  // namespace ashlar
