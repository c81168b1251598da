// exp2, exp, SiLU, GELU and rsqrt of f32: the only ones in the project, so that every kernel rounds
// alike.
//
// Plain scalar code without branches or library calls, made to be inlined: the compiler turns a
// fixed-length loop over these functions into vector code (map_lanes), also inside a Highway target
// region, and one lane of that has the same bits as one scalar call. Every fused multiply-add is
// written as std::fma, nothing else is contracted. Accuracy, measured over all magnitudes in
// activation_test.cc: exp2 and exp 1 ulp, SiLU and GELU 3 ulp of the result where it is normal.
// Inputs may be infinite; NaN gives NaN.
#ifndef ASHLAR_KERNELS_MATH_ACTIVATION_H_
#define ASHLAR_KERNELS_MATH_ACTIVATION_H_

#include <bit>
#include <cmath>
#include <cstdint>

namespace ashlar {

// Floats in one 512-bit vector; the unit in which loops over these functions are written.
constexpr int kMathLanes = 16;

namespace math {

// Adding this to |v| < 2^22 leaves the nearest integer (ties to even) in the low bits of the sum.
constexpr float kRoundShift = 0x1.8p23f;

// 2^n for an integer n in [-126, 127].
[[gnu::always_inline]] inline float power_of_two(int32_t n) {
  return std::bit_cast<float>(static_cast<uint32_t>(n + 127) << 23);
}

// e^r for |r| <= ln(2) / 2. Coefficients: minimax fit of (e^r - 1 - r) / r^2, relative error 3e-9.
[[gnu::always_inline]] inline float exp_near_zero(float r) {
  float p = 0x1.6a23c6p-10f;
  p = std::fma(p, r, 0x1.123a22p-7f);
  p = std::fma(p, r, 0x1.5558f4p-5f);
  p = std::fma(p, r, 0x1.555492p-3f);
  p = std::fma(p, r, 0x1.fffffcp-2f);
  p = std::fma(p, r, 1.0f);
  return std::fma(p, r, 1.0f);
}

// e^r * 2^n for |r| <= ln(2) / 2 and n in [-252, 254]. The scale is applied as two factors: the
// first product is exact, so a subnormal result is rounded once.
[[gnu::always_inline]] inline float exp_reduced(float r, int32_t n) {
  const int32_t half = n >> 1;
  return exp_near_zero(r) * power_of_two(half) * power_of_two(n - half);
}

// Keeps NaN: both comparisons are false for it.
[[gnu::always_inline]] inline float clamp(float x, float low, float high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

}  // namespace math

// 2^x. Exactly 1 at 0, exactly 0 below -150 (so masked scores of -inf weigh nothing), infinite from
// 128 on.
[[gnu::always_inline]] inline float exp2(float x) {
  x = math::clamp(x, -152.0f, 129.0f);
  const float shifted = x + math::kRoundShift;
  const int32_t n = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(math::kRoundShift);
  const float f = x - (shifted - math::kRoundShift);  // exact
  return math::exp_reduced(f * 0x1.62e430p-1f, n);
}

// exp2 where x is at most 0 and results below 2^-64 need not be told apart: its bits from -64 to 0,
// and those of 2^-64 below (also for NaN). The scale is one addition to the exponent, a third less
// work.
[[gnu::always_inline]] inline float exp2_of_weight(float x) {
  x = x > -64.0f ? x : -64.0f;
  const float shifted = x + math::kRoundShift;
  const float f = x - (shifted - math::kRoundShift);  // exact
  const uint32_t p = std::bit_cast<uint32_t>(math::exp_near_zero(f * 0x1.62e430p-1f));
  // The low bits of `shifted` are the whole part; those of kRoundShift itself leave the word.
  return std::bit_cast<float>(p + (std::bit_cast<uint32_t>(shifted) << 23));
}

// e^x. ln(2) is split so that n * high is exact.
[[gnu::always_inline]] inline float exp(float x) {
  x = math::clamp(x, -105.0f, 89.0f);
  const float shifted = std::fma(x, 0x1.715476p0f, math::kRoundShift);
  const int32_t n = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(math::kRoundShift);
  const float whole = shifted - math::kRoundShift;
  float r = std::fma(whole, -0x1.62e400p-1f, x);
  r = std::fma(whole, -0x1.7f7d1cp-20f, r);
  return math::exp_reduced(r, n);
}

// x * sigmoid(x). Zero (of x's sign) below about -88, where e^-x is infinite.
[[gnu::always_inline]] inline float silu(float x) { return x / (1.0f + exp(-x)); }

// x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), computed as x * sigmoid(2 * that argument): no
// cancellation.
[[gnu::always_inline]] inline float gelu_tanh(float x) {
  const float slope = std::fma(x * x, 0x1.2444f2p-4f, 0x1.988454p0f);
  return x / (1.0f + exp(-(x * slope)));
}

// 1 / sqrt(x), both steps rounded to nearest.
[[gnu::always_inline]] inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }

// to[i] = function(from[i]) for i < count, sixteen at a time. `from` and `to` are equal or do not
// overlap.
template <class Function>
[[gnu::always_inline]] inline void map_lanes(Function function, const float* from, float* to,
                                             int64_t count) {
  alignas(64) float lanes[kMathLanes] = {};
  for (int64_t begin = 0; begin < count; begin += kMathLanes) {
    const int64_t left = count - begin;
    if (left >= kMathLanes) [[likely]] {
      for (int i = 0; i < kMathLanes; ++i) lanes[i] = function(from[begin + i]);
      for (int i = 0; i < kMathLanes; ++i) to[begin + i] = lanes[i];
    } else {
      for (int64_t i = 0; i < left; ++i) to[begin + i] = function(from[begin + i]);
    }
  }
}

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_MATH_ACTIVATION_H_
