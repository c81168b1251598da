// Small models of every family on a GPU: their logits against the CPU's, within what rounding to
// bf16 explains; and the row rule on whole models: chunks, batch mates and padding change no bit.
//
// How far rounding may move the logits is measured, not guessed: the CPU runs the same model with
// each element of its matrices off by up to half a unit of bf16, which does to a sum what rounding
// its inputs does. A GPU rounds at a few more places (queries, keys, values, weights of the
// softmax), which is what the factor is for. Planted errors, on the CPU alone, show that it is not
// too large.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "testing/cuda_device.h"
#include "testing/forward.h"
#include "testing/random.h"
#include "testing/random_model.h"

namespace ashlar {
namespace {

constexpr float kHalfUnit = 0x1p-9f;
constexpr double kFactor = 3.0;   // of the root mean square difference; KL goes with its square
constexpr int64_t kTokens = 300;  // more than two tiles of keys

std::vector<int32_t> random_tokens(uint64_t seed, int64_t count, int64_t vocabulary) {
  Random random(seed);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>(random.below(vocabulary)));
  return tokens;
}

double kl_divergence(std::span<const float> reference, std::span<const float> ours) {
  const auto log_sum = [](std::span<const float> x) {
    const double top = *std::max_element(x.begin(), x.end());
    double sum = 0.0;
    for (const float value : x) sum += std::exp(value - top);
    return top + std::log(sum);
  };
  const double reference_sum = log_sum(reference);
  const double our_sum = log_sum(ours);
  double kl = 0.0;
  for (size_t i = 0; i < ours.size(); ++i) {
    const double p = reference[i] - reference_sum;
    kl += std::exp(p) * (p - (ours[i] - our_sum));
  }
  return kl;
}

struct Distance {
  double rms = 0.0;
  double mean_kl = 0.0;
};

// decodable: columns beyond it must be -inf in both.
Distance distance(const std::vector<float>& ours, const std::vector<float>& reference,
                  int64_t vocabulary, int64_t decodable) {
  Distance out;
  const int64_t rows = static_cast<int64_t>(reference.size()) / vocabulary;
  for (int64_t t = 0; t < rows; ++t) {
    const std::span<const float> a(&ours[t * vocabulary], static_cast<size_t>(vocabulary));
    const std::span<const float> b(&reference[t * vocabulary], static_cast<size_t>(vocabulary));
    for (int64_t v = 0; v < vocabulary; ++v) {
      if (v >= decodable) {
        EXPECT_EQ(a[v], -INFINITY);
        EXPECT_EQ(b[v], -INFINITY);
        continue;
      }
      const double difference = static_cast<double>(a[v]) - b[v];
      out.rms += difference * difference / static_cast<double>(rows * decodable);
    }
    out.mean_kl +=
        kl_divergence(b.first(decodable), a.first(decodable)) / static_cast<double>(rows);
  }
  out.rms = std::sqrt(out.rms);
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

// The first vocabulary / 8 * 8 - 8 ids can be decoded.
class CudaModel : public testing::TestWithParam<RandomModel> {
 protected:
  std::vector<int32_t> tokens(uint64_t seed, int64_t count = kTokens) const {
    return random_tokens(seed, count, decodable());
  }
  int64_t decodable() const { return GetParam().vocabulary / 8 * 8 - 8; }

  std::vector<float> cpu_logits(std::span<const int32_t> tokens, float noise = 0.0f) {
    const auto harness = open(write_random_model(dir_, GetParam(), noise),
                              {.kv_type = DType::kF32, .threads = 2, .decodable = decodable()});
    return harness != nullptr ? harness->logits(tokens) : std::vector<float>();
  }
  std::unique_ptr<ForwardHarness> on_gpu() {
    return open(write_random_model(dir_, GetParam()),
                {.kv_type = DType::kBF16, .device = &cuda_device(), .decodable = decodable()});
  }

  TempDir dir_;
};

TEST_P(CudaModel, AgreesWithTheCpu) {
  ASHLAR_NEEDS_CUDA();
  const std::vector<int32_t> text = tokens(1);
  const std::vector<float> cpu = cpu_logits(text);
  const auto harness = on_gpu();
  ASSERT_NE(harness, nullptr);
  const std::vector<float> gpu = harness->logits(text);
  ASSERT_EQ(gpu.size(), cpu.size());
  const Distance noise =
      distance(cpu_logits(text, kHalfUnit), cpu, GetParam().vocabulary, decodable());
  const Distance ours = distance(gpu, cpu, GetParam().vocabulary, decodable());
  fmt::print("{}: rms {:.2e}, KL {:.2e}; of rounding {:.2e}, {:.2e}\n", GetParam().name, ours.rms,
             ours.mean_kl, noise.rms, noise.mean_kl);
  EXPECT_LE(ours.rms, kFactor * noise.rms);
  EXPECT_LE(ours.mean_kl, kFactor * kFactor * noise.mean_kl);
  EXPECT_GT(ours.rms, 0.1 * noise.rms);  // it does round
  EXPECT_LE(harness->workspace_peak_bytes(),
            static_cast<size_t>(harness->model().workspace_bytes(1024, 1024)));
}

TEST_P(CudaModel, ChunksChangeNoBit) {
  ASHLAR_NEEDS_CUDA();
  const std::vector<int32_t> text = tokens(2);
  const auto harness = on_gpu();
  ASSERT_NE(harness, nullptr);
  const std::vector<float> whole = harness->logits(text);
  for (const int64_t chunk : {0, 1, 2, 7, 33, 64, 129, 299}) {
    EXPECT_TRUE(same_bits(harness->logits(text, chunk), whole)) << chunk;
  }
}

TEST_P(CudaModel, BatchMatesAndPaddingChangeNoBit) {
  ASHLAR_NEEDS_CUDA();
  const std::vector<int32_t> one = tokens(3);
  const std::vector<int32_t> two = tokens(4, 120);
  const std::span<const int32_t> first = one;
  const std::span<const int32_t> second = two;
  const auto harness = on_gpu();
  ASSERT_NE(harness, nullptr);
  const std::vector<float> alone = harness->logits(first);
  for (int64_t sequence = 0; sequence < 4; ++sequence) harness->truncate(sequence, 0);

  // The text is the middle one of three sequences: a prompt beside two others, then alone with
  // padding, then token by token beside mates that decode.
  const int64_t vocabulary = GetParam().vocabulary;
  const size_t half = 200;
  const ForwardHarness::Piece prompts[] = {
      {2, second.first(5)}, {1, first.first(half)}, {0, second.first(100)}};
  const std::vector<float> prompt_logits = harness->forward(prompts, 3);
  std::vector<float> together(prompt_logits.begin() + 5 * vocabulary,
                              prompt_logits.begin() + static_cast<int64_t>(5 + half) * vocabulary);
  const ForwardHarness::Piece middle[] = {{1, first.subspan(half, 80)}};
  const std::vector<float> middle_logits = harness->forward(middle, 7);
  together.insert(together.end(), middle_logits.begin(), middle_logits.end());
  for (size_t i = half + 80; i < first.size(); ++i) {
    const ForwardHarness::Piece decode[] = {{2, second.subspan(i - half - 75, 1)},
                                            {1, first.subspan(i, 1)},
                                            {0, second.subspan(i - half + 20, 1)}};
    const std::vector<float> logits =
        harness->forward(std::span(decode).first(i < first.size() - 2 ? 2 + i % 2 : 2));
    together.insert(together.end(), logits.begin() + vocabulary, logits.begin() + 2 * vocabulary);
  }
  EXPECT_TRUE(same_bits(together, alone));
}

// No GPU: a lost first token, and keys of one position further, are errors far beyond the bounds.
TEST_P(CudaModel, BoundsCatchPlantedErrors) {
  const std::vector<int32_t> text = tokens(1, 64);
  const std::vector<float> cpu = cpu_logits(text);
  const Distance noise =
      distance(cpu_logits(text, kHalfUnit), cpu, GetParam().vocabulary, decodable());
  std::vector<int32_t> other = text;
  other[20] = (other[20] + 1) % static_cast<int32_t>(decodable());
  const Distance error = distance(cpu_logits(other), cpu, GetParam().vocabulary, decodable());
  fmt::print("{}: of rounding {:.2e}, KL {:.2e}; of one other token {:.2e}, {:.2e}\n",
             GetParam().name, noise.rms, noise.mean_kl, error.rms, error.mean_kl);
  EXPECT_GT(noise.rms, 1e-4);
  EXPECT_GT(error.rms, 3 * kFactor * noise.rms);
}

INSTANTIATE_TEST_SUITE_P(All, CudaModel, testing::ValuesIn(random_models()),
                         [](const auto& info) { return info.param.name; });

TEST(CudaModels, UnknownHeadSizesAreRefused) {
  ASHLAR_NEEDS_CUDA();
  TempDir dir;
  RandomModel model = random_models().front();
  model.head_size = 32;
  const auto harness = ForwardHarness::load(write_random_model(dir, model),
                                            {.kv_type = DType::kBF16, .device = &cuda_device()});
  ASSERT_FALSE(harness.has_value());
  EXPECT_NE(harness.error().message.find("a head size of 32 does not run on a CUDA device"),
            std::string::npos)
      << harness.error().message;
}

}  // namespace
}  // namespace ashlar
