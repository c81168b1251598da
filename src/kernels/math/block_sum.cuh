// Sums over the threads of a warp or a CTA on CUDA devices, as one fixed tree each: halves of a
// warp by xor (16, 8, 4, 2, 1), then the warps of the CTA the same way. A tree depends on the
// number of threads alone, so whoever sums a row with a fixed number of threads keeps the row rule.
#ifndef ASHLAR_KERNELS_MATH_BLOCK_SUM_CUH_
#define ASHLAR_KERNELS_MATH_BLOCK_SUM_CUH_

namespace ashlar {

// Every lane gets the sum; float addition commutes, so all lanes get the same bits.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int half = 16; half > 0; half /= 2) {
    value = __fadd_rn(value, __shfl_xor_sync(0xffffffffu, value, half));
  }
  return value;
}

// The same over a CTA of kWarps warps (a power of two, at most 32), by every thread. `scratch`
// holds kWarps floats; it may be used again after another __syncthreads().
template <int kWarps>
__device__ __forceinline__ float block_sum(float value, float* scratch) {
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[threadIdx.x % kWarps];
#pragma unroll
  for (int half = kWarps / 2; half > 0; half /= 2) {
    value = __fadd_rn(value, __shfl_xor_sync(0xffffffffu, value, half));
  }
  return value;
}

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_MATH_BLOCK_SUM_CUH_
