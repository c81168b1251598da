// The CUDA cell of fill_synthetic: eight elements a thread, written as 16 bytes. About thirty
// integer instructions an element, so it is bound by them: some 10 ms for 8 billion elements on an
// H200 by that count, not measured.
#include "base/align.h"
#include "device/launch_cuda.h"
#include "kernels/fill_synthetic/fill_synthetic.h"
#include "kernels/hopper/dependent_launch.cuh"

namespace ashlar {

namespace {

constexpr int kThreads = 256;
constexpr int kRun = 8;  // elements of a thread

struct FillKernelArgs {
  SyntheticValues values;
  uint16_t* y;
  int64_t first;
  int64_t count;
  bool aligned;  // y, to 16 bytes
};

__global__ void __launch_bounds__(kThreads) fill_synthetic_kernel(FillKernelArgs args) {
  wait_for_predecessor();
  let_successor_start();
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kRun;
  const uint64_t index = static_cast<uint64_t>(args.first + begin);
  if (args.aligned && begin + kRun <= args.count) {
    uint32_t pairs[kRun / 2];
#pragma unroll
    for (int i = 0; i < kRun / 2; ++i) {
      const uint32_t low = synthetic_bf16(args.values, index + 2 * i);
      const uint32_t high = synthetic_bf16(args.values, index + 2 * i + 1);
      pairs[i] = low | high << 16;
    }
    *reinterpret_cast<uint4*>(args.y + begin) = {pairs[0], pairs[1], pairs[2], pairs[3]};
    return;
  }
  for (int64_t i = begin; i < begin + kRun && i < args.count; ++i) {
    args.y[i] = synthetic_bf16(args.values, static_cast<uint64_t>(args.first + i));
  }
}

}  // namespace

void fill_synthetic_cuda(Stream& stream, const FillSyntheticArgs& args) {
  const int64_t count = args.y.shape().count();
  const FillKernelArgs kernel_args = {args.values, reinterpret_cast<uint16_t*>(args.y.as<BF16>()),
                                      args.first, count,
                                      reinterpret_cast<uintptr_t>(args.y.data()) % 16 == 0};
  launch(stream, "fill_synthetic", fill_synthetic_kernel,
         {.grid = dim3(static_cast<unsigned>(divide_up(count, int64_t{kThreads} * kRun))),
          .block = dim3(kThreads)},
         kernel_args);
}

}  // namespace ashlar
