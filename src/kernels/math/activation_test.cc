// The shared activation functions against double precision, and vector loops against scalar calls
// bit by bit. Inputs sweep f32 bit patterns, so every exponent is met.
#include "kernels/math/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace ashlar {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Distance of value from exact, in units of the last place of exact as an f32.
double ulps(float value, double exact) {
  const double magnitude = std::max(std::abs(exact), 0x1p-149);
  const double ulp = std::max(std::ldexp(1.0, std::ilogb(magnitude) - 23), 0x1p-149);
  return std::abs(static_cast<double>(value) - exact) / ulp;
}

// Every step-th f32 of both signs with magnitude up to `limit`.
std::vector<float> sweep(float limit, uint32_t step) {
  std::vector<float> values;
  for (uint32_t bits = 0; bits <= std::bit_cast<uint32_t>(limit); bits += step) {
    values.push_back(std::bit_cast<float>(bits));
    values.push_back(-std::bit_cast<float>(bits));
  }
  return values;
}

template <class Function, class Exact>
double worst(Function function, Exact exact, float limit, float smallest_result) {
  double most = 0;
  for (const float x : sweep(limit, 1009)) {
    const double wanted = exact(static_cast<double>(x));
    if (std::abs(wanted) < smallest_result || std::abs(wanted) > 3.4e38) continue;
    most = std::max(most, ulps(function(x), wanted));
  }
  return most;
}

TEST(Activation, ExponentialsAreWithinOneUlp) {
  EXPECT_LT(
      worst([](float x) { return exp2(x); }, [](double x) { return std::exp2(x); }, 150.0f, 0),
      1.0);
  EXPECT_LT(worst([](float x) { return exp(x); }, [](double x) { return std::exp(x); }, 104.0f, 0),
            1.0);
}

TEST(Activation, GatesAreWithinThreeUlps) {
  const auto exact_silu = [](double x) { return x / (1 + std::exp(-x)); };
  const auto exact_gelu = [](double x) {
    return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  };
  EXPECT_LT(worst([](float x) { return silu(x); }, exact_silu, 80.0f, 1e-36f), 3.0);
  // The argument of the exponential is itself rounded, which grows with it: up to 1 and beyond
  // apart.
  EXPECT_LT(worst([](float x) { return gelu_tanh(x); }, exact_gelu, 1.0f, 1e-36f), 3.5);
  for (const float x : sweep(30.0f, 10007)) {
    ASSERT_NEAR(gelu_tanh(x), exact_gelu(x), 2e-7 * std::max(1.0f, std::abs(x))) << x;
  }
}

TEST(Activation, Ends) {
  EXPECT_EQ(exp2(0.0f), 1.0f);
  EXPECT_EQ(exp2(-kInfinity), 0.0f);
  EXPECT_EQ(exp2(-151.0f), 0.0f);
  EXPECT_EQ(exp2(-149.0f), 0x1p-149f);
  EXPECT_EQ(exp2(127.0f), 0x1p127f);
  EXPECT_EQ(exp2(128.0f), kInfinity);
  EXPECT_EQ(exp2(kInfinity), kInfinity);
  EXPECT_EQ(exp(0.0f), 1.0f);
  EXPECT_EQ(exp(kInfinity), kInfinity);
  EXPECT_EQ(exp(-kInfinity), 0.0f);
  EXPECT_EQ(silu(0.0f), 0.0f);
  EXPECT_EQ(silu(100.0f), 100.0f);
  EXPECT_EQ(gelu_tanh(0.0f), 0.0f);
  EXPECT_EQ(gelu_tanh(50.0f), 50.0f);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(exp2(nan)) && std::isnan(exp(nan)) && std::isnan(silu(nan)));
  EXPECT_TRUE(std::isnan(gelu_tanh(nan)));
  EXPECT_EQ(rsqrt(4.0f), 0.5f);
}

TEST(Activation, WeightsHaveTheBitsOfExp2) {
  for (const float magnitude : sweep(64.0f, 1009)) {
    const float x = -std::abs(magnitude);
    ASSERT_EQ(std::bit_cast<uint32_t>(exp2_of_weight(x)), std::bit_cast<uint32_t>(exp2(x))) << x;
  }
  EXPECT_EQ(exp2_of_weight(-0.0f), 1.0f);
  for (const float x : {-64.5f, -1e30f, -kInfinity}) EXPECT_EQ(exp2_of_weight(x), 0x1p-64f);
}

TEST(Activation, LoopsHaveTheBitsOfSingleCalls) {
  std::vector<float> x = sweep(200.0f, 100003);
  x.push_back(kInfinity);
  x.push_back(-kInfinity);
  for (const int64_t count :
       {int64_t{1}, int64_t{15}, int64_t{16}, int64_t{17}, static_cast<int64_t>(x.size())}) {
    std::vector<float> y(x.size(), -1.0f);
    map_lanes([](float v) { return silu(v); }, x.data(), y.data(), count);
    for (int64_t i = 0; i < count; ++i) {
      volatile float single = x[i];
      ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(silu(single))) << x[i];
    }
    if (count < static_cast<int64_t>(x.size())) {
      EXPECT_EQ(y[count], -1.0f);
    }
  }
}

}  // namespace
}  // namespace ashlar
