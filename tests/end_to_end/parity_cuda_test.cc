// Parity of the two real models on a GPU, their weights rounded to bf16 when they are loaded, with
// the stored float32 references that parity_test.cc holds the CPU to.
//
// The bounds are what transformers' own bf16 run is away from the same references in the mean: a
// GPU must not be further. tests/golden/parity/README.md says what the references are.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "parity/reference.h"
#include "testing/cuda_device.h"
#include "testing/forward.h"
#include "testing/paths.h"

namespace ashlar {
namespace {

constexpr int64_t kRowsAStep = 256;

struct Case {
  std::string name;
  std::filesystem::path model;
  double mean_kl;
};

class RealModelCudaParity : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    ASHLAR_NEEDS_CUDA();
    if (!std::filesystem::exists(GetParam().model))
      GTEST_SKIP() << GetParam().model << " is not there";
    const auto path = source_dir() / "tests/golden/parity" / (GetParam().name + ".safetensors");
    auto reference = ReferenceFile::open(path.string());
    ASSERT_TRUE(reference.has_value()) << reference.error().message;
    reference_.emplace(std::move(*reference));
    auto harness = ForwardHarness::load(GetParam().model.string(), {.kv_type = DType::kBF16,
                                                                    .device = &cuda_device(),
                                                                    .positions = 1024,
                                                                    .rows = kRowsAStep,
                                                                    .sequences = 1});
    ASSERT_TRUE(harness.has_value()) << harness.error().message;
    harness_ = std::move(*harness);
  }

  // Calls visit(position, logits) for every position of the first `texts` texts.
  void visit_logits(int64_t texts, auto&& visit) {
    for (int64_t text = 0; text < texts; ++text) {
      const auto tokens = reference_->tokens(text);
      harness_->truncate(0, 0);
      for (size_t begin = 0; begin < tokens.size(); begin += kRowsAStep) {
        const auto piece =
            tokens.subspan(begin, std::min<size_t>(kRowsAStep, tokens.size() - begin));
        const ForwardHarness::Piece pieces[] = {{.sequence = 0, .tokens = piece}};
        const std::vector<float> logits = harness_->forward(pieces);
        const size_t width = logits.size() / piece.size();
        for (size_t row = 0; row < piece.size(); ++row) {
          visit(reference_->first_position(text) + static_cast<int64_t>(begin + row),
                std::span(logits).subspan(row * width, width));
        }
      }
    }
  }

  // "token 3 of text 41".
  std::string place(int64_t position) const {
    int64_t text = 0;
    while (text + 1 < reference_->texts() && reference_->first_position(text + 1) <= position)
      ++text;
    return fmt::format("token {} of text {}", position - reference_->first_position(text), text);
  }

  std::optional<ReferenceFile> reference_;
  std::unique_ptr<ForwardHarness> harness_;
};

TEST_P(RealModelCudaParity, IsNoFurtherThanBf16InTransformers) {
  DivergenceMeter meter;
  double worst = 0.0;
  int64_t worst_position = 0;
  visit_logits(reference_->texts(), [&](int64_t position, std::span<const float> logits) {
    meter.add(logits, reference_->top(position));
    const double divergence = top_divergence(logits, reference_->top(position));
    if (divergence > worst) worst_position = position;
    worst = std::max(worst, divergence);
  });
  const DivergenceSummary summary = meter.summary();
  fmt::print("{} ({}): {}\n", GetParam().name, harness_->model().info().weight_formats,
             summary.text());
  fmt::print("{}: the largest is {:.2e}, {}\n", GetParam().name, worst, place(worst_position));
  EXPECT_GE(summary.positions, 4000);
  EXPECT_EQ(summary.non_finite, 0);
  EXPECT_LE(summary.mean, GetParam().mean_kl);
}

TEST_P(RealModelCudaParity, CatchesAShiftedPosition) {
  DivergenceMeter shifted;
  visit_logits(3, [&](int64_t position, std::span<const float> logits) {
    shifted.add(logits, reference_->top(position + 1));
  });
  EXPECT_GT(shifted.summary().mean, 0.1);
}

INSTANTIATE_TEST_SUITE_P(Models, RealModelCudaParity,
                         ::testing::Values(Case{"smollm2", smollm2_path(), 2.1e-3},
                                           Case{"gemma3", gemma3_path(), 1.0e-3}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ashlar
