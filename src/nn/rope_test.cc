// Inverse frequencies and attention factors against those of the reference implementation (its f32
// values, seven digits), the table against direct cosines, and the limit on its size.
#include "nn/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ashlar {
namespace {

void expect_frequencies(const RopeConfig& config, const std::vector<double>& wanted) {
  const int64_t head_size = 2 * static_cast<int64_t>(wanted.size());
  const std::vector<double> got = rope_inverse_frequencies(config, head_size);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i] / wanted[i], 1.0, 4e-7) << i;
}

TEST(RopeFrequencies, AreThoseOfTheReferenceWithoutScaling) {
  expect_frequencies({.theta = 10000.0, .divisors = {}},
                     {1, 0.316227764, 0.100000001, 0.0316227786, 0.00999999978, 0.00316227786,
                      0.00100000005, 0.000316227786});
}

TEST(RopeFrequencies, AreDividedByALinearFactor) {
  expect_frequencies(
      {.theta = 10000.0, .scaling = RopeScaling::kLinear, .factor = 2.5, .divisors = {}},
      {0.400000006, 0.1264911, 0.0399999991, 0.0126491114, 0.00399999972, 0.00126491114,
       0.000400000019, 0.000126491112});
}

const std::vector<double> kLlama31 = {1,
                                      0.440366626,
                                      0.193922758,
                                      0.0853971019,
                                      0.0376060307,
                                      0.0165604409,
                                      0.00729266508,
                                      0.00321144611,
                                      0.000524846022,
                                      7.78465546e-05,
                                      3.42810235e-05,
                                      1.50962178e-05,
                                      6.64786967e-06,
                                      2.92749974e-06,
                                      1.28917316e-06,
                                      5.6770881e-07};

TEST(RopeFrequencies, FollowLlama3) {
  expect_frequencies({.theta = 500000.0,
                      .scaling = RopeScaling::kLlama3,
                      .factor = 8.0,
                      .original_context = 8192.0,
                      .low_freq_factor = 1.0,
                      .high_freq_factor = 4.0,
                      .divisors = {}},
                     kLlama31);
}

TEST(RopeFrequencies, TakeTheSameStretchingAsDivisors) {
  RopeConfig plain;
  plain.theta = 500000.0;
  const std::vector<double> unscaled = rope_inverse_frequencies(plain, 32);
  for (size_t i = 0; i < unscaled.size(); ++i) plain.divisors.push_back(unscaled[i] / kLlama31[i]);
  expect_frequencies(plain, kLlama31);
}

RopeConfig yarn(double factor, double original) {
  RopeConfig config;
  config.scaling = RopeScaling::kYarn;
  config.factor = factor;
  config.original_context = original;
  return config;
}

TEST(RopeFrequencies, FollowYarn) {
  expect_frequencies(yarn(4.0, 32.0), {1, 0.197642356, 0.0250000004, 0.00790569466, 0.00249999994,
                                       0.000790569466, 0.000250000012, 7.90569466e-05});
  expect_frequencies(yarn(40.0, 4096.0), {1, 0.316227764, 0.100000001, 0.0239147246, 0.00512499968,
                                          0.000849862176, 2.49999994e-05, 7.90569447e-06});
}

TEST(RopeFrequencies, FollowYarnWithItsOwnRampAndBrokenBounds) {
  RopeConfig config = yarn(4.0, 64.0);
  config.truncate = false;
  config.beta_fast = 8.0;
  config.beta_slow = 2.0;
  expect_frequencies(config, {1, 0.160589159, 0.0250000004, 0.00790569466, 0.00249999994,
                              0.000790569466, 0.000250000012, 7.90569466e-05});
}

TEST(RopeFrequencies, GiveYarnsAttentionFactor) {
  EXPECT_NEAR(yarn_attention_factor(4.0, {}, {}), 1.138629436111989, 1e-12);
  EXPECT_NEAR(yarn_attention_factor(40.0, 0.707, 0.5), 1.064468903941252, 1e-12);
  EXPECT_EQ(yarn_attention_factor(1.0, {}, {}), 1.0);
}

TEST(RopeTable, HoldsCosinesThenSinesOfEveryPosition) {
  const std::unique_ptr<Device> device = new_cpu_device(1);
  RopeConfig config;
  config.theta = 500000.0;
  config.attention_factor = 1.25;
  constexpr int64_t kPositions = 131072 + 5;
  const auto rope = Rope::make(*device, config, 8, kPositions);
  ASSERT_TRUE(rope.has_value());
  const TensorView table = (*rope)->cos_sin();
  ASSERT_EQ(table.shape(), (Shape{kPositions, 8}));
  const std::vector<double> frequencies = rope_inverse_frequencies(config, 8);
  for (const int64_t p : {0, 1, 255, 256, 257, 40000, 131071, 131076}) {
    for (int64_t i = 0; i < 4; ++i) {
      const double angle = static_cast<double>(p) * frequencies[i];
      EXPECT_EQ(table.row<float>(p)[i], static_cast<float>(1.25 * std::cos(angle)))
          << p << " " << i;
      EXPECT_EQ(table.row<float>(p)[4 + i], static_cast<float>(1.25 * std::sin(angle)))
          << p << " " << i;
    }
  }
}

TEST(RopeTable, RefusesToFillMemory) {
  const std::unique_ptr<Device> device = new_cpu_device(1);
  const auto rope = Rope::make(*device, {}, 256, int64_t{1} << 40);
  ASSERT_FALSE(rope.has_value());
  EXPECT_EQ(rope.error().code, ErrorCode::kOutOfRange);
  EXPECT_NE(rope.error().message.find("1099511627776 positions"), std::string::npos)
      << rope.error().message;
}

}  // namespace
}  // namespace ashlar
