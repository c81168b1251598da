// exp2, exp, SiLU, GELU, tanh, rsqrt and 16-bit rounding on CUDA devices: the only ones, so that
// every kernel rounds alike.
//
// The formulas, constants and order of operations are those of kernels/math/activation.h, written
// with IEEE instructions only, so a value has the same bits on the CPU and on the device
// (device_math_cuda_test.cc compares them over all exponents). No approximate instruction is hidden
// behind these names; the one that is worth having, device_exp2_approximate, says so. Code that
// includes this file is compiled with -fmad=false; every fused multiply-add is written.
#ifndef ASHLAR_KERNELS_MATH_DEVICE_MATH_CUH_
#define ASHLAR_KERNELS_MATH_DEVICE_MATH_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace ashlar {

namespace device_math {

// Adding this to |v| < 2^22 leaves the nearest integer (ties to even) in the low bits of the sum.
constexpr float kRoundShift = 0x1.8p23f;
constexpr int32_t kRoundShiftBits = 0x4b400000;

// 2^n for an integer n in [-126, 127].
__device__ __forceinline__ float power_of_two(int32_t n) { return __int_as_float((n + 127) << 23); }

// e^r for |r| <= ln(2) / 2; the fit of kernels/math/activation.h.
__device__ __forceinline__ float exp_near_zero(float r) {
  float p = 0x1.6a23c6p-10f;
  p = __fmaf_rn(p, r, 0x1.123a22p-7f);
  p = __fmaf_rn(p, r, 0x1.5558f4p-5f);
  p = __fmaf_rn(p, r, 0x1.555492p-3f);
  p = __fmaf_rn(p, r, 0x1.fffffcp-2f);
  p = __fmaf_rn(p, r, 1.0f);
  return __fmaf_rn(p, r, 1.0f);
}

// e^r * 2^n for n in [-252, 254]: two factors, so that a subnormal result is rounded once.
__device__ __forceinline__ float exp_reduced(float r, int32_t n) {
  const int32_t half = n >> 1;
  return __fmul_rn(__fmul_rn(exp_near_zero(r), power_of_two(half)), power_of_two(n - half));
}

// Keeps NaN: both comparisons are false for it.
__device__ __forceinline__ float clamp(float x, float low, float high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

}  // namespace device_math

// 2^x. Exactly 1 at 0, exactly 0 below -150, infinite from 128 on.
__device__ __forceinline__ float device_exp2(float x) {
  x = device_math::clamp(x, -152.0f, 129.0f);
  const float shifted = __fadd_rn(x, device_math::kRoundShift);
  const int32_t n = __float_as_int(shifted) - device_math::kRoundShiftBits;
  const float f = __fsub_rn(x, __fsub_rn(shifted, device_math::kRoundShift));  // exact
  return device_math::exp_reduced(__fmul_rn(f, 0x1.62e430p-1f), n);
}

// The bits of device_exp2 for -64 <= x <= 0, those of 2^-64 below and for NaN: eleven instructions.
__device__ __forceinline__ float device_exp2_of_weight(float x) {
  x = x > -64.0f ? x : -64.0f;
  const float shifted = __fadd_rn(x, device_math::kRoundShift);
  const float f = __fsub_rn(x, __fsub_rn(shifted, device_math::kRoundShift));  // exact
  const float p = device_math::exp_near_zero(__fmul_rn(f, 0x1.62e430p-1f));
  return __int_as_float(__float_as_int(p) + (__float_as_int(shifted) << 23));
}

// The hardware's 2^x: about 2 ulp, subnormals are zero, 0 at -inf. For attention's weights, which
// round to bf16 next and are 1 at most; other bits than device_exp2, so one definition uses one of
// them everywhere.
__device__ __forceinline__ float device_exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// e^x. ln(2) is split so that n * high is exact.
__device__ __forceinline__ float device_exp(float x) {
  x = device_math::clamp(x, -105.0f, 89.0f);
  const float shifted = __fmaf_rn(x, 0x1.715476p0f, device_math::kRoundShift);
  const int32_t n = __float_as_int(shifted) - device_math::kRoundShiftBits;
  const float whole = __fsub_rn(shifted, device_math::kRoundShift);
  float r = __fmaf_rn(whole, -0x1.62e400p-1f, x);
  r = __fmaf_rn(whole, -0x1.7f7d1cp-20f, r);
  return device_math::exp_reduced(r, n);
}

// x * sigmoid(x). Zero (of x's sign) below about -88, where e^-x is infinite.
__device__ __forceinline__ float device_silu(float x) {
  return __fdiv_rn(x, __fadd_rn(1.0f, device_exp(-x)));
}

// x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), as x * sigmoid(2 * that argument).
__device__ __forceinline__ float device_gelu_tanh(float x) {
  const float slope = __fmaf_rn(__fmul_rn(x, x), 0x1.2444f2p-4f, 0x1.988454p0f);
  return __fdiv_rn(x, __fadd_rn(1.0f, device_exp(-__fmul_rn(x, slope))));
}

// tanh, within 3 ulp: (1 - e^-2|x|) / (1 + e^-2|x|), and below 0.6, where that would cancel,
// x + x^3 P(x^2). Coefficients: (tanh(x)/x - 1) / x^2 interpolated at Chebyshev nodes. For
// soft-caps.
__device__ __forceinline__ float device_tanh(float x) {
  const float magnitude = fabsf(x);
  const float e = device_exp(__fmul_rn(-2.0f, magnitude));
  const float far = copysignf(__fdiv_rn(__fsub_rn(1.0f, e), __fadd_rn(1.0f, e)), x);
  const float z = __fmul_rn(x, x);
  float p = 0x1.36bdb4p-9f;
  p = __fmaf_rn(p, z, -0x1.1394cap-7f);
  p = __fmaf_rn(p, z, 0x1.64fad8p-6f);
  p = __fmaf_rn(p, z, -0x1.ba0d94p-5f);
  p = __fmaf_rn(p, z, 0x1.1110f6p-3f);
  p = __fmaf_rn(p, z, -0x1.555556p-2f);
  return magnitude < 0.6f ? __fmaf_rn(__fmul_rn(p, z), x, x) : far;
}

// 1 / sqrt(x), both steps rounded to nearest.
__device__ __forceinline__ float device_rsqrt(float x) { return __fdiv_rn(1.0f, __fsqrt_rn(x)); }

// To nearest, ties to even; NaN becomes a quiet NaN.
__device__ __forceinline__ __nv_bfloat16 round_bf16(float x) { return __float2bfloat16_rn(x); }
__device__ __forceinline__ __half round_f16(float x) { return __float2half_rn(x); }

// Two at once, `low` in the lower 16 bits.
__device__ __forceinline__ uint32_t round_bf16_pair(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// The two halves of such a pair, exact.
__device__ __forceinline__ float bf16_low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float bf16_high(uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000u);
}

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_MATH_DEVICE_MATH_CUH_
