// The CUDA cell of gather_dense: a CTA for each kElements of a row. Bytes: the rows of the weight
// and y once each.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "base/align.h"
#include "device/launch_cuda.h"
#include "kernels/gather_dense/gather_dense.h"
#include "kernels/hopper/dependent_launch.cuh"
#include "kernels/math/device_math.cuh"

namespace ashlar {

namespace {

constexpr int kThreads = 128;
constexpr int kElements = 8 * kThreads;  // of a CTA

struct GatherDenseKernelArgs {
  const void* weight;
  const int32_t* ids;
  float* y;
  int64_t weight_stride;
  int64_t y_stride;
  int64_t weight_rows;
  int size;
  float scale;
};

__device__ __forceinline__ float widened(float v) { return v; }
__device__ __forceinline__ float widened(__half v) { return __half2float(v); }
__device__ __forceinline__ float widened(__nv_bfloat16 v) { return __bfloat162float(v); }

// Eight elements of 2 or 4 bytes in one or two loads.
template <class T>
struct alignas(8 * sizeof(T) < 16 ? 8 * sizeof(T) : 16) Eight {
  T v[8];
};

// Grid [T, K / kElements].
template <class T, bool kEights>
__global__ void __launch_bounds__(kThreads) gather_dense_kernel(GatherDenseKernelArgs args) {
  wait_for_predecessor();
  let_successor_start();
  const int32_t id = args.ids[blockIdx.x];
  if (id < 0 || id >= args.weight_rows) __trap();
  const T* row = static_cast<const T*>(args.weight) + id * args.weight_stride;
  float* y = args.y + blockIdx.x * args.y_stride;
  const int first = static_cast<int>(blockIdx.y) * kElements;
  // A product with 1 is exact, so one formula serves.
  if constexpr (kEights) {
    const int k = first + 8 * static_cast<int>(threadIdx.x);
    if (k >= args.size) return;
    const Eight<T> eight = *reinterpret_cast<const Eight<T>*>(row + k);
    Eight<float> out;
#pragma unroll
    for (int i = 0; i < 8; ++i) out.v[i] = __fmul_rn(widened(eight.v[i]), args.scale);
    *reinterpret_cast<Eight<float>*>(y + k) = out;
  } else {
    for (int k = first + static_cast<int>(threadIdx.x); k < min(first + kElements, args.size);
         k += kThreads) {
      y[k] = __fmul_rn(widened(row[k]), args.scale);
    }
  }
}

bool eights(const TensorView& view) {
  return reinterpret_cast<uintptr_t>(view.data()) % 16 == 0 && view.row_stride() % 8 == 0 &&
         view.dim(1) % 8 == 0;
}

template <class T>
auto kernel_for(bool eight) -> void (*)(GatherDenseKernelArgs) {
  return eight ? gather_dense_kernel<T, true> : gather_dense_kernel<T, false>;
}

}  // namespace

void gather_dense_cuda(Stream& stream, const GatherDenseArgs& args) {
  const int64_t size = args.y.dim(1);
  const GatherDenseKernelArgs kernel_args = {
      args.weight.data(),  args.ids.as<int32_t>(), args.y.as<float>(),     args.weight.row_stride(),
      args.y.row_stride(), args.weight.rows(),     static_cast<int>(size), args.scale};
  const bool eight = eights(args.weight) && eights(args.y);
  auto kernel = kernel_for<float>(eight);
  if (args.weight.dtype() == DType::kF16) kernel = kernel_for<__half>(eight);
  if (args.weight.dtype() == DType::kBF16) kernel = kernel_for<__nv_bfloat16>(eight);
  launch(stream, "gather_dense", kernel,
         {.grid = dim3(static_cast<unsigned>(args.ids.dim(0)),
                       static_cast<unsigned>(divide_up(size, kElements))),
          .block = dim3(kThreads)},
         kernel_args);
}

}  // namespace ashlar
