// The CUDA cell of gather_rows: a copy, a CTA for each kElements of a row.
#include "base/align.h"
#include "device/launch_cuda.h"
#include "kernels/gather_rows/gather_rows.h"
#include "kernels/hopper/dependent_launch.cuh"

namespace ashlar {

namespace {

constexpr int kThreads = 256;
constexpr int kElements = 4 * kThreads;  // of a CTA

struct GatherRowsKernelArgs {
  const float* x;
  const int32_t* rows;
  float* y;
  int64_t x_stride;
  int64_t y_stride;
  int64_t x_rows;
  int size;
};

// Grid [R, D / kElements].
template <bool kQuads>
__global__ void __launch_bounds__(kThreads) gather_rows_kernel(GatherRowsKernelArgs args) {
  wait_for_predecessor();
  let_successor_start();
  const int32_t row = args.rows[blockIdx.x];
  if (row < 0 || row >= args.x_rows) __trap();
  const float* x = args.x + row * args.x_stride;
  float* y = args.y + blockIdx.x * args.y_stride;
  const int first = static_cast<int>(blockIdx.y) * kElements;
  if constexpr (kQuads) {
    const int d = first + 4 * static_cast<int>(threadIdx.x);
    if (d < args.size) {
      *reinterpret_cast<float4*>(y + d) = *reinterpret_cast<const float4*>(x + d);
    }
  } else {
    for (int d = first + static_cast<int>(threadIdx.x); d < min(first + kElements, args.size);
         d += kThreads) {
      y[d] = x[d];
    }
  }
}

bool quads(const TensorView& view) {
  return reinterpret_cast<uintptr_t>(view.data()) % 16 == 0 && view.row_stride() % 4 == 0 &&
         view.dim(1) % 4 == 0;
}

}  // namespace

void gather_rows_cuda(Stream& stream, const GatherRowsArgs& args) {
  const int64_t size = args.x.dim(1);
  const GatherRowsKernelArgs kernel_args = {
      args.x.as<float>(),  args.rows.as<int32_t>(), args.y.as<float>(),    args.x.row_stride(),
      args.y.row_stride(), args.x.rows(),           static_cast<int>(size)};
  launch(stream, "gather_rows",
         quads(args.x) && quads(args.y) ? gather_rows_kernel<true> : gather_rows_kernel<false>,
         {.grid = dim3(static_cast<unsigned>(args.rows.dim(0)),
                       static_cast<unsigned>(divide_up(size, kElements))),
          .block = dim3(kThreads)},
         kernel_args);
}

}  // namespace ashlar
