// Parity of two real models with stored float32 references of the reference implementation on the
// same dequantised weights (tests/golden/parity/README.md), teacher forced, with the cache type
// that the program uses.
//
// Bounds: mean KL 1e-4 nat, 99 % of the positions below 1e-3, and the most likely token equal
// wherever the reference's own margin exceeds its bf16 noise. The last test plants errors of the
// kind these bounds exist for and sees them caught.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "formats/format.h"
#include "parity/reference.h"
#include "testing/forward.h"
#include "testing/paths.h"

namespace ashlar {
namespace {

constexpr int64_t kRowsAStep = 64;  // also keeps the logits of a step small: 64 x 262144 floats

struct Case {
  std::string name;
  std::filesystem::path model;
};

ReferenceFile open_reference(const std::string& name) {
  const auto path = source_dir() / "tests/golden/parity" / (name + ".safetensors");
  auto reference = ReferenceFile::open(path.string());
  CHECK(reference.has_value());
  return std::move(*reference);
}

std::unique_ptr<ForwardHarness> load(const Case& c) {
  auto harness = ForwardHarness::load(c.model.string(), {.kv_type = DType::kF16,
                                                         .threads = 2,
                                                         .positions = 1024,
                                                         .rows = kRowsAStep,
                                                         .sequences = 1});
  EXPECT_TRUE(harness.has_value()) << harness.error().message;
  return harness.has_value() ? std::move(*harness) : nullptr;
}

// Calls visit(position, logits) for every position of the first `texts` texts.
void visit_logits(ForwardHarness& harness, const ReferenceFile& reference, int64_t texts,
                  auto&& visit) {
  for (int64_t text = 0; text < texts; ++text) {
    const auto tokens = reference.tokens(text);
    harness.truncate(0, 0);
    for (size_t begin = 0; begin < tokens.size(); begin += kRowsAStep) {
      const auto piece = tokens.subspan(begin, std::min<size_t>(kRowsAStep, tokens.size() - begin));
      const ForwardHarness::Piece pieces[] = {{.sequence = 0, .tokens = piece}};
      const std::vector<float> logits = harness.forward(pieces);
      const size_t width = logits.size() / piece.size();
      for (size_t row = 0; row < piece.size(); ++row) {
        visit(reference.first_position(text) + static_cast<int64_t>(begin + row),
              std::span(logits).subspan(row * width, width));
      }
    }
  }
}

// reference_logits[i V] of hidden row i, in double over the dequantised head.
std::vector<std::vector<float>> full_reference(const Case& c, const ReferenceFile& reference) {
  const auto device = new_cpu_device(1);
  const auto checkpoint = *Checkpoint::open(c.model.string(), {});
  const StoredTensor* embedding = checkpoint->find("model.embed_tokens.weight");
  const WeightPart part = {checkpoint->group("model.embed_tokens"), embedding->rows(),
                           embedding->columns(), RowOrder::kPlain, 0};
  const auto head = *load_weight(std::span(&part, 1), *device);
  const auto count = reference.hidden_positions().size();
  const int64_t k = head->inputs();
  // [K count], so that the inner loop runs over positions.
  std::vector<double> hidden(static_cast<size_t>(k) * count);
  for (size_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      hidden[static_cast<size_t>(j) * count + i] =
          reference.hidden(static_cast<int64_t>(i))[static_cast<size_t>(j)];
    }
  }
  std::vector<std::vector<float>> logits(count,
                                         std::vector<float>(static_cast<size_t>(head->outputs())));
  std::vector<float> row(static_cast<size_t>(k));
  std::vector<double> sums(count);
  for (int64_t n = 0; n < head->outputs(); ++n) {
    head->dequantize(n, 1, row.data());
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t j = 0; j < k; ++j) {
      const double w = row[static_cast<size_t>(j)];
      const double* h = &hidden[static_cast<size_t>(j) * count];
      for (size_t i = 0; i < count; ++i) sums[i] += w * h[i];
    }
    for (size_t i = 0; i < count; ++i)
      logits[i][static_cast<size_t>(n)] = static_cast<float>(sums[i]);
  }
  return logits;
}

class RealModelParity : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(GetParam().model))
      GTEST_SKIP() << GetParam().model << " is not there";
  }
};

TEST_P(RealModelParity, StaysWithinTheBoundsOverAllTexts) {
  ReferenceFile reference = open_reference(GetParam().name);
  ASSERT_GE(reference.texts(), 40);
  ASSERT_GE(reference.positions(), 4000);
  const auto harness = load(GetParam());
  ASSERT_NE(harness, nullptr);
  DivergenceMeter top;
  DivergenceMeter full;
  const auto full_rows = reference.hidden_positions();
  ASSERT_GE(full_rows.size(), 200u);
  const auto full_logits = full_reference(GetParam(), reference);
  visit_logits(*harness, reference, reference.texts(),
               [&](int64_t position, std::span<const float> logits) {
                 top.add(logits, reference.top(position));
                 const auto row = std::find(full_rows.begin(), full_rows.end(), position);
                 if (row == full_rows.end()) return;
                 const auto& wanted = full_logits[static_cast<size_t>(row - full_rows.begin())];
                 full.add_value(full_divergence(logits, wanted));
                 // The stored top agrees with the stored state: the two forms of the reference are
                 // one.
                 ASSERT_LT(std::abs(top_divergence(wanted, reference.top(position))), 1e-7);
               });
  for (const DivergenceSummary& s : {top.summary(), full.summary()}) {
    fmt::print("{}: {}\n", GetParam().name, s.text());
    EXPECT_EQ(s.non_finite, 0);
    EXPECT_LE(s.mean, 1e-4);
    EXPECT_LE(s.p99, 1e-3);
    EXPECT_EQ(s.top1_wrong, 0);
  }
  EXPECT_EQ(full.summary().positions, static_cast<int64_t>(full_rows.size()));
}

// One position shifted, and a text whose first token is lost: what wrong positions and a wrong BOS
// look like.
TEST_P(RealModelParity, CatchesPlantedErrors) {
  ReferenceFile reference = open_reference(GetParam().name);
  const auto harness = load(GetParam());
  ASSERT_NE(harness, nullptr);
  DivergenceMeter shifted;
  visit_logits(*harness, reference, 3, [&](int64_t position, std::span<const float> logits) {
    shifted.add(logits, reference.top(position + 1));
  });
  EXPECT_GT(shifted.summary().mean, 0.1);
  DivergenceMeter cut;
  for (int64_t text = 0; text < 3; ++text) {
    const auto tokens = reference.tokens(text).subspan(1);
    const std::vector<float> logits =
        harness->logits(tokens.first(std::min<size_t>(tokens.size(), 32)));
    const size_t width = logits.size() / std::min<size_t>(tokens.size(), 32);
    for (size_t row = 0; row < logits.size() / width; ++row) {
      cut.add(std::span(logits).subspan(row * width, width),
              reference.top(reference.first_position(text) + 1 + static_cast<int64_t>(row)));
    }
  }
  EXPECT_GT(cut.summary().mean, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Models, RealModelParity,
                         ::testing::Values(Case{"smollm2", smollm2_path()},
                                           Case{"gemma3", gemma3_path()}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ashlar
