// Every tiny checkpoint of tests/golden/tiny against the float32 logits of the reference
// implementation, teacher forced, from safetensors and from GGUF; and the row rule on whole models:
// chunks, batch mates, padding and threads change no bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "testing/forward.h"
#include "testing/paths.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

struct Text {
  std::vector<int32_t> tokens;
  std::vector<float> logits;  // [tokens V]
};

fs::path tiny_dir() { return source_dir() / "tests/golden/tiny"; }

// "llama" → its folder and its GGUF; "llama.q8_0_q4_0" → a GGUF only.
std::vector<std::string> checkpoints_of(const std::string& name) {
  std::vector<std::string> paths;
  if (fs::is_directory(tiny_dir() / name)) paths.push_back((tiny_dir() / name).string());
  const fs::path gguf = tiny_dir() / (name + ".gguf");
  if (fs::exists(gguf)) paths.push_back(gguf.string());
  return paths;
}

std::vector<std::string> reference_names() {
  const std::string suffix = ".reference.safetensors";
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(tiny_dir())) {
    const std::string file = entry.path().filename().string();
    if (file.ends_with(suffix)) names.push_back(file.substr(0, file.size() - suffix.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

template <class T>
std::vector<T> copy_of(const SafetensorsTensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

std::vector<Text> reference_texts(const std::string& name) {
  const auto file =
      SafetensorsFile::open((tiny_dir() / (name + ".reference.safetensors")).string());
  EXPECT_TRUE(file.has_value());
  std::map<std::string, Text> texts;
  for (const SafetensorsTensor& tensor : file->tensors()) {
    const size_t dot = tensor.name.find('.');
    const std::string kind = tensor.name.substr(0, dot);
    Text& text = texts[tensor.name.substr(dot + 1)];
    if (kind == "tokens") text.tokens = copy_of<int32_t>(tensor);
    if (kind == "logits") text.logits = copy_of<float>(tensor);
  }
  std::vector<Text> out;
  for (auto& [key, text] : texts) out.push_back(std::move(text));
  return out;
}

double kl_divergence(const float* reference, const float* ours, int64_t count) {
  const auto log_sum = [count](const float* x) {
    const double top = *std::max_element(x, x + count);
    double sum = 0.0;
    for (int64_t i = 0; i < count; ++i) sum += std::exp(x[i] - top);
    return top + std::log(sum);
  };
  const double reference_sum = log_sum(reference);
  const double our_sum = log_sum(ours);
  double kl = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const double p = reference[i] - reference_sum;
    kl += std::exp(p) * (p - (ours[i] - our_sum));
  }
  return kl;
}

struct Distance {
  double max_difference = 0.0;
  double mean_kl = 0.0;
};

Distance distance(const Text& text, const std::vector<float>& ours) {
  const int64_t rows = static_cast<int64_t>(text.tokens.size());
  const int64_t vocabulary = static_cast<int64_t>(text.logits.size()) / rows;
  Distance out;
  for (size_t i = 0; i < ours.size(); ++i) {
    const double difference = std::abs(static_cast<double>(ours[i]) - text.logits[i]);
    if (!(difference <= out.max_difference)) out.max_difference = difference;  // NaN stays
  }
  for (int64_t t = 0; t < rows; ++t) {
    out.mean_kl += kl_divergence(&text.logits[t * vocabulary], &ours[t * vocabulary], vocabulary) /
                   static_cast<double>(rows);
  }
  return out;
}

std::unique_ptr<ForwardHarness> open(const std::string& path, const ForwardOptions& options) {
  auto harness = ForwardHarness::load(path, options);
  EXPECT_TRUE(harness.has_value()) << path << ": " << harness.error().message;
  return harness.has_value() ? std::move(*harness) : nullptr;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class TinyModel : public testing::TestWithParam<std::string> {};

TEST_P(TinyModel, MatchesTheReferenceInFloat32) {
  const std::vector<Text> texts = reference_texts(GetParam());
  ASSERT_FALSE(texts.empty());
  const std::vector<std::string> paths = checkpoints_of(GetParam());
  ASSERT_FALSE(paths.empty());
  for (const std::string& path : paths) {
    const auto harness = open(path, {.kv_type = DType::kF32});
    ASSERT_NE(harness, nullptr);
    const bool rounds = harness->model().info().weight_formats.find('Q') != std::string::npos;
    for (const Text& text : texts) {
      const std::vector<float> logits = harness->logits(text.tokens);
      ASSERT_EQ(logits.size(), text.logits.size()) << path;
      const Distance d = distance(text, logits);
      // Logits are up to 30 here. Formats that multiply integers round the inputs to 15 bits.
      EXPECT_LE(d.max_difference, rounds ? 3e-3 : 1e-4) << path;
      EXPECT_LE(d.mean_kl, 1e-7) << path;
    }
  }
}

// Keys and values in f16 are the one rounding that the CPU backend adds by default.
TEST_P(TinyModel, IsCloseWithHalfPrecisionPages) {
  const std::vector<Text> texts = reference_texts(GetParam());
  for (const std::string& path : checkpoints_of(GetParam())) {
    const auto harness = open(path, {.kv_type = DType::kF16});
    ASSERT_NE(harness, nullptr);
    for (const Text& text : texts) {
      const Distance d = distance(text, harness->logits(text.tokens));
      EXPECT_LE(d.mean_kl, 1e-5) << path;
      EXPECT_GT(d.max_difference, 0.0) << path;
    }
  }
}

TEST_P(TinyModel, ChunksAndThreadsChangeNoBit) {
  const Text text = reference_texts(GetParam()).front();
  for (const std::string& path : checkpoints_of(GetParam())) {
    std::vector<float> whole;
    for (const int threads : {1, 2, 3}) {
      const auto harness = open(path, {.kv_type = DType::kF16, .threads = threads});
      ASSERT_NE(harness, nullptr);
      if (whole.empty()) whole = harness->logits(text.tokens);
      for (const int64_t chunk : {0, 1, 7, 64}) {
        EXPECT_TRUE(same_bits(harness->logits(text.tokens, chunk), whole))
            << path << " threads " << threads << " chunk " << chunk;
      }
    }
  }
}

TEST_P(TinyModel, BatchMatesAndPaddingChangeNoBit) {
  const std::vector<Text> texts = reference_texts(GetParam());
  ASSERT_GE(texts.size(), 2u);
  const std::string path = checkpoints_of(GetParam()).front();
  const auto harness = open(path, {.kv_type = DType::kF16, .threads = 2});
  ASSERT_NE(harness, nullptr);
  const std::span<const int32_t> first = texts[0].tokens;
  const std::span<const int32_t> second = texts[1].tokens;
  const std::vector<float> alone = harness->logits(first);
  for (int64_t sequence = 0; sequence < 3; ++sequence) harness->truncate(sequence, 0);

  // The text is the middle one of three sequences and enters in two steps, each with other mates
  // and with padding.
  const int64_t vocabulary = harness->model().info().vocabulary;
  const size_t half = first.size() / 2;
  const ForwardHarness::Piece step_one[] = {
      {2, second.first(5)}, {1, first.first(half)}, {0, second}};
  const ForwardHarness::Piece step_two[] = {{1, first.subspan(half)}, {2, second.subspan(5, 1)}};
  const std::vector<float> one = harness->forward(step_one, 3);
  const std::vector<float> two = harness->forward(step_two, 1);
  std::vector<float> together(one.begin() + 5 * vocabulary, one.begin() + (5 + half) * vocabulary);
  together.insert(together.end(), two.begin(), two.begin() + (first.size() - half) * vocabulary);
  EXPECT_TRUE(same_bits(together, alone));
}

INSTANTIATE_TEST_SUITE_P(All, TinyModel, testing::ValuesIn(reference_names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace ashlar
