// Divergences against values worked out by hand, and the counting of near ties and broken rows.
#include "parity/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ashlar {
namespace {

std::vector<float> logits_of(std::vector<double> p) {
  std::vector<float> out;
  for (double v : p)
    out.push_back(static_cast<float>(std::log(v) + 3));  // the shift must not matter
  return out;
}

TEST(Divergence, FullMatchesTheDefinition) {
  // P = (1/2, 1/4, 1/4), Q = (1/4, 1/4, 1/2): 1/2 log 2 + 0 - 1/4 log 2.
  const double kl = full_divergence(logits_of({.25, .25, .5}), logits_of({.5, .25, .25}));
  EXPECT_NEAR(kl, 0.25 * std::log(2.0), 1e-6);
  EXPECT_NEAR(full_divergence(logits_of({.3, .7}), logits_of({.3, .7})), 0, 1e-12);
}

TEST(Divergence, TopAndRestBucket) {
  // Reference keeps id 2 (1/2) and puts the rest (1/2) in a bucket; ours has 1/4 on id 2.
  const int32_t ids[] = {2};
  const float logprobs[] = {std::log(0.5f)};
  const TopReference reference{ids, logprobs, std::log(0.5), 0.4f, 0.01f};
  const double kl = top_divergence(logits_of({.5, .25, .25}), reference);
  EXPECT_NEAR(kl, 0.5 * std::log(2.0) + 0.5 * std::log(0.5 / 0.75), 1e-7);
  EXPECT_NEAR(top_divergence(logits_of({.3, .2, .5}), reference), 0, 1e-7);
}

TEST(Divergence, MeterCountsTiesWrongTokensAndBrokenRows) {
  const int32_t ids[] = {1, 0};
  const float logprobs[] = {std::log(0.6f), std::log(0.4f)};
  const double none = -std::numeric_limits<double>::infinity();
  DivergenceMeter meter;
  meter.add(logits_of({.4, .6}), {ids, logprobs, none, 0.4f, 0.1f});  // equal
  meter.add(logits_of({.6, .4}), {ids, logprobs, none, 0.4f, 0.1f});  // wrong
  meter.add(logits_of({.6, .4}), {ids, logprobs, none, 0.4f, 0.5f});  // near tie
  std::vector<float> broken = {NAN, 1.0f};
  meter.add(broken, {ids, logprobs, none, 0.4f, 0.5f});
  const DivergenceSummary s = meter.summary();
  EXPECT_EQ(s.positions, 4);
  EXPECT_EQ(s.top1_wrong, 1);
  EXPECT_EQ(s.near_ties, 2);
  EXPECT_EQ(s.non_finite, 1);
  EXPECT_TRUE(std::isnan(s.mean));
  EXPECT_TRUE(std::isnan(s.max));
}

TEST(Divergence, QuantilesAreNearestRank) {
  DivergenceMeter meter;
  for (int i = 100; i >= 1; --i) meter.add_value(i);
  const DivergenceSummary s = meter.summary();
  EXPECT_EQ(s.median, 50);
  EXPECT_EQ(s.p99, 99);
  EXPECT_EQ(s.max, 100);
  EXPECT_EQ(s.mean, 50.5);
}

}  // namespace
}  // namespace ashlar
