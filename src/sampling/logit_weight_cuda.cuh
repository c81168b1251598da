// What choosing a token computes with on CUDA devices: weights of logits, the order of tokens, and
// random bits. The same values as sampling/logit_scan.h, logit_row.h and philox.h, bit by bit; this
// file is their only twin.
#ifndef ASHLAR_SAMPLING_LOGIT_WEIGHT_CUDA_CUH_
#define ASHLAR_SAMPLING_LOGIT_WEIGHT_CUDA_CUH_

#include <cstdint>

#include "kernels/math/device_math.cuh"

namespace ashlar {

// fl(fl(x - max) * scale): octaves beside the likeliest token, at most 0.
__device__ __forceinline__ float octaves_of(float x, float max, float scale) {
  return __fmul_rn(__fsub_rn(x, max), scale);
}

// round(2^40 * 2^octaves), ties to even, in two halves: weight = high * 2^18 + low. Each is the
// distance of two bit patterns, since adding kRoundShift leaves an integer in the low bits; every
// step but the last rounding is exact. Conversions to double would cost four times as much.
struct SplitWeight {
  int32_t high;  // at most 2^22
  int32_t low;   // at most 2^17 either way

  __device__ __forceinline__ uint64_t value() const {
    return static_cast<uint64_t>((static_cast<int64_t>(high) << 18) + low);
  }
};
__device__ __forceinline__ SplitWeight split_weight_of(float octaves) {
  using device_math::kRoundShift;
  using device_math::kRoundShiftBits;
  const float w = device_exp2_of_weight(octaves);
  const float high = __fmaf_rn(w, 0x1p22f, kRoundShift);
  const float rest = __fmaf_rn(w, 0x1p22f, -__fsub_rn(high, kRoundShift));
  const float low = __fmaf_rn(rest, 0x1p18f, kRoundShift);
  return {__float_as_int(high) - kRoundShiftBits, __float_as_int(low) - kRoundShiftBits};
}
__device__ __forceinline__ uint64_t weight_of(float octaves) {
  return split_weight_of(octaves).value();
}

// Tokens in the order of preference: the lower number is preferred. Higher logit first, ties
// (0 and -0 among them) to the lower id. No two tokens of a row have the same.
__device__ __forceinline__ uint64_t preference(float x, uint32_t id) {
  const uint32_t bits = __float_as_uint(__fadd_rn(x, 0.0f));  // -0 becomes 0
  const uint32_t ascending = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(~ascending) << 32 | id;
}

__device__ __forceinline__ float preferred_logit(uint64_t preference) {
  const uint32_t ascending = ~static_cast<uint32_t>(preference >> 32);
  return __uint_as_float((ascending & 0x80000000u) != 0 ? ascending & 0x7fffffffu : ~ascending);
}

// random_bits() of sampling/philox.h for the purpose kToken.
__device__ __forceinline__ uint64_t device_random_bits(uint64_t seed, uint32_t choice,
                                                       int64_t position) {
  uint32_t c0 = static_cast<uint32_t>(position);
  uint32_t c1 = static_cast<uint32_t>(position >> 32);
  uint32_t c2 = choice;
  uint32_t c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed);
  uint32_t k1 = static_cast<uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = static_cast<uint64_t>(0xD2511F53u) * c0;
    const uint64_t b = static_cast<uint64_t>(0xCD9E8D57u) * c2;
    c0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(b);
    c2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return static_cast<uint64_t>(c1) << 32 | c0;
}

}  // namespace ashlar

#endif  // ASHLAR_SAMPLING_LOGIT_WEIGHT_CUDA_CUH_
