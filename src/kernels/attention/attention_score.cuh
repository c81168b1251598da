// The arithmetic of attention on CUDA, once for decode and prefill: from a product q.k to a weight,
// and how the splits of a row fold. docs/numerics.md states it in words.
//
// A split is a key tile of 128 positions. Products are chains of tensor-core instructions over 16
// elements in ascending order from zero; mma.sync and wgmma give the same bits, on either side
// (kernels/hopper/wgmma.cuh). Weights use the hardware's exp2, the same bits on every GPU of one
// model.
#ifndef ASHLAR_KERNELS_ATTENTION_ATTENTION_SCORE_CUH_
#define ASHLAR_KERNELS_ATTENTION_ATTENTION_SCORE_CUH_

#include <cstdint>

#include "kernels/attention/attention_cuda.h"
#include "kernels/math/device_math.cuh"

namespace ashlar {

constexpr int kTilePositions = 128;  // kAttentionTile
constexpr float kNothingSeen = -INFINITY;

__device__ __forceinline__ int32_t first_visible(int32_t position, int32_t window) {
  return max(0, position - window + 1);
}

__device__ __forceinline__ float capped_score(float product, const AttentionCudaArgs& args) {
  return __fmul_rn(args.cap, device_tanh(__fmul_rn(product, args.cap_factor)));
}

// The maximum of a split in units of log2, from that of its visible scores (kNothingSeen: none).
__device__ __forceinline__ float split_maximum(float score, float factor) {
  return score == kNothingSeen ? kNothingSeen : __fmul_rn(score, factor);
}

// 0 for a masked score, which is -infinity, whatever the maximum. Rounded to bf16 by the caller.
__device__ __forceinline__ float weight_of(float score, float factor, float maximum) {
  const float bias = maximum == kNothingSeen ? 0.0f : maximum;
  return device_exp2_approximate(__fmaf_rn(score, factor, -bias));
}

// How a split joins what a row has gathered: value = FMA(value, keep, split value * add).
struct SplitFold {
  float keep;
  float add;
  bool visible;  // else the row is left as it is
};

__device__ __forceinline__ SplitFold fold_split(float& maximum, float split) {
  const float larger = fmaxf(maximum, split);
  const SplitFold fold = {device_exp2_approximate(maximum - larger),
                          device_exp2_approximate(split - larger), split != kNothingSeen};
  maximum = fold.visible ? larger : maximum;
  return fold;
}

__device__ __forceinline__ float folded(float value, float split, const SplitFold& fold) {
  return __fmaf_rn(value, fold.keep, __fmul_rn(split, fold.add));
}

__device__ __forceinline__ float folded_if_visible(float value, float split,
                                                   const SplitFold& fold) {
  return fold.visible ? folded(value, split, fold) : value;
}

__device__ __forceinline__ float inverse_sum(float sum) { return __fdiv_rn(1.0f, sum); }

__device__ __forceinline__ uint16_t attention_output(float value, float inverse) {
  return __bfloat16_as_ushort(round_bf16(__fmul_rn(value, inverse)));
}

// D[16 8] += A[16 16] B[16 8], bf16 in, f32 out, by one warp.
__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

constexpr uint32_t kTwoOnes = 0x3f803f80u;  // bf16

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_ATTENTION_ATTENTION_SCORE_CUH_
