// The CUDA cell of rms_norm: a CTA of 256 threads a row, the row in registers between its two uses.
//
// Sum of squares: quad q (elements 4q to 4q + 3) belongs to thread q mod 256, each thread an FMA
// chain in ascending order, then the tree of math/block_sum.cuh. The tree depends on D alone, the
// same for every kernel of this file. y = (x * r) * w rounds twice in f32, once more to bf16 where
// y is bf16; the addition to y is one more f32 rounding, as in the reference. Bytes: x once, y once
// (twice with the addition), the weight from the L2 cache. Rows longer than 8,192 or not of whole
// quads read x twice.
#include <cuda_bf16.h>

#include <algorithm>

#include "base/align.h"
#include "device/launch_cuda.h"
#include "kernels/hopper/dependent_launch.cuh"
#include "kernels/math/block_sum.cuh"
#include "kernels/math/device_math.cuh"
#include "kernels/rms_norm/rms_norm.h"

namespace ashlar {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kLargestQuads = 8;  // quads of one thread that are kept in registers

struct RmsNormKernelArgs {
  const float* x;
  const float* weight;
  void* y;
  int64_t x_stride;
  int64_t y_stride;
  int size;
  float eps;
};

__device__ __forceinline__ float square_chain(float4 v, float sum) {
  sum = __fmaf_rn(v.x, v.x, sum);
  sum = __fmaf_rn(v.y, v.y, sum);
  sum = __fmaf_rn(v.z, v.z, sum);
  return __fmaf_rn(v.w, v.w, sum);
}

__device__ __forceinline__ float inverse_rms_of(float sum, int size, float eps, float* scratch) {
  sum = block_sum<kWarps>(sum, scratch);
  return device_rsqrt(__fadd_rn(__fdiv_rn(sum, static_cast<float>(size)), eps));
}

__device__ __forceinline__ float normed(float x, float inverse, float weight) {
  return __fmul_rn(__fmul_rn(x, inverse), weight);
}

template <class Out, bool kAdd>
__device__ __forceinline__ void store_quad(float4 v, Out* y) {
  if constexpr (kAdd) {
    const float4 old = *reinterpret_cast<const float4*>(y);
    v = {__fadd_rn(v.x, old.x), __fadd_rn(v.y, old.y), __fadd_rn(v.z, old.z),
         __fadd_rn(v.w, old.w)};
  }
  if constexpr (sizeof(Out) == 4) {
    *reinterpret_cast<float4*>(y) = v;
  } else {
    *reinterpret_cast<uint2*>(y) = {round_bf16_pair(v.x, v.y), round_bf16_pair(v.z, v.w)};
  }
}

// kQuads quads a thread: 1024 kQuads elements at most, a multiple of 4, rows aligned to quads.
template <class Out, bool kAdd, int kQuads>
__global__ void __launch_bounds__(kThreads) rms_norm_quads(RmsNormKernelArgs args) {
  __shared__ float scratch[kWarps];
  const int quads = args.size / 4;
  // Weights never change, so they may be read before the predecessor is done.
  float4 weight[kQuads];
#pragma unroll
  for (int i = 0; i < kQuads; ++i) {
    const int q = static_cast<int>(threadIdx.x) + i * kThreads;
    weight[i] = q < quads ? __ldg(reinterpret_cast<const float4*>(args.weight) + q) : float4{};
  }
  wait_for_predecessor();
  let_successor_start();
  const float* row = args.x + static_cast<int64_t>(blockIdx.x) * args.x_stride;
  Out* y = static_cast<Out*>(args.y) + static_cast<int64_t>(blockIdx.x) * args.y_stride;
  float4 x[kQuads];
#pragma unroll
  for (int i = 0; i < kQuads; ++i) {
    const int q = static_cast<int>(threadIdx.x) + i * kThreads;
    x[i] = q < quads ? reinterpret_cast<const float4*>(row)[q] : float4{};
  }
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kQuads; ++i) sum = square_chain(x[i], sum);
  const float inverse = inverse_rms_of(sum, args.size, args.eps, scratch);
#pragma unroll
  for (int i = 0; i < kQuads; ++i) {
    const int q = static_cast<int>(threadIdx.x) + i * kThreads;
    if (q >= quads) continue;
    const float4 v = {normed(x[i].x, inverse, weight[i].x), normed(x[i].y, inverse, weight[i].y),
                      normed(x[i].z, inverse, weight[i].z), normed(x[i].w, inverse, weight[i].w)};
    store_quad<Out, kAdd>(v, y + 4 * q);
  }
}

// Any length and alignment; the same tree.
template <class Out, bool kAdd>
__global__ void __launch_bounds__(kThreads) rms_norm_elements(RmsNormKernelArgs args) {
  __shared__ float scratch[kWarps];
  wait_for_predecessor();
  let_successor_start();
  const float* x = args.x + static_cast<int64_t>(blockIdx.x) * args.x_stride;
  Out* y = static_cast<Out*>(args.y) + static_cast<int64_t>(blockIdx.x) * args.y_stride;
  float sum = 0.0f;
  for (int first = 4 * static_cast<int>(threadIdx.x); first < args.size; first += 4 * kThreads) {
    for (int d = first; d < min(first + 4, args.size); ++d) sum = __fmaf_rn(x[d], x[d], sum);
  }
  const float inverse = inverse_rms_of(sum, args.size, args.eps, scratch);
  for (int d = static_cast<int>(threadIdx.x); d < args.size; d += kThreads) {
    float v = normed(x[d], inverse, args.weight[d]);
    if constexpr (kAdd) v = __fadd_rn(v, y[d]);
    if constexpr (sizeof(Out) == 4) {
      y[d] = v;
    } else {
      y[d] = round_bf16(v);
    }
  }
}

// Whether the first element of every row is; a vector has one row.
bool aligned_to(const TensorView& view, size_t bytes) {
  const size_t row_bytes = static_cast<size_t>(view.row_stride()) * dtype_bytes(view.dtype());
  return reinterpret_cast<uintptr_t>(view.data()) % bytes == 0 &&
         (view.shape().rank() == 1 || row_bytes % bytes == 0);
}

template <class Out, bool kAdd, int kQuads = 1>
auto kernel_for(int64_t quads_a_thread) -> void (*)(RmsNormKernelArgs) {
  if constexpr (kQuads > kLargestQuads) {
    return rms_norm_elements<Out, kAdd>;
  } else {
    if (quads_a_thread <= kQuads) return rms_norm_quads<Out, kAdd, kQuads>;
    return kernel_for<Out, kAdd, (kQuads < 4 ? kQuads + 1 : kQuads + 2)>(quads_a_thread);
  }
}

}  // namespace

void rms_norm_cuda(Stream& stream, const RmsNormArgs& args) {
  const int64_t size = args.x.dim(1);
  const RmsNormKernelArgs kernel_args = {
      args.x.as<float>(),  args.weight.as<float>(), args.y.data(), args.x.row_stride(),
      args.y.row_stride(), static_cast<int>(size),  args.eps};
  const bool quads = size % 4 == 0 && aligned_to(args.x, 16) && aligned_to(args.weight, 16) &&
                     aligned_to(args.y, 4 * dtype_bytes(args.y.dtype()));
  const int64_t quads_a_thread = quads ? divide_up(size / 4, kThreads) : kLargestQuads + 1;
  auto kernel = kernel_for<float, false>(quads_a_thread);
  if (args.add_to_output) {
    kernel = kernel_for<float, true>(quads_a_thread);
  } else if (args.y.dtype() == DType::kBF16) {
    kernel = kernel_for<__nv_bfloat16, false>(quads_a_thread);
  }
  launch(stream, "rms_norm", kernel,
         {.grid = dim3(static_cast<unsigned>(args.x.rows())), .block = dim3(kThreads)},
         kernel_args);
}

}  // namespace ashlar
