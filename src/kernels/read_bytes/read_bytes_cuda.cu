// The CUDA cell of read_bytes: 16-byte loads that keep out of the first-level cache, several of a
// thread on their way at once. Ways differ in threads, loads and in whether a few CTAs stay and
// walk over the array or each tile has a CTA of its own.
#include <algorithm>

#include "base/align.h"
#include "device/launch_cuda.h"
#include "kernels/hopper/dependent_launch.cuh"
#include "kernels/read_bytes/read_bytes.h"

namespace ashlar {

void read_bytes_cuda(Stream& stream, const ReadBytesArgs& args);

namespace {

struct ReadKernelArgs {
  const uint4* data;
  int64_t count;  // of 16 bytes
  unsigned* sums;
  float* clock;  // null: not wanted
};

__device__ __forceinline__ uint4 load(const uint4* from) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

__device__ __forceinline__ unsigned sum_of(uint4 v) { return v.x + v.y + v.z + v.w; }

__device__ __forceinline__ int64_t nanoseconds() {
  int64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

template <int kThreads, int kLoads, int kCtas>
__global__ void __launch_bounds__(kThreads, kCtas) read_bytes_kernel(ReadKernelArgs args) {
  constexpr int64_t kTile = static_cast<int64_t>(kThreads) * kLoads;
  __shared__ unsigned warp_sums[kThreads / 32];
  wait_for_predecessor();
  let_successor_start();
  const bool timed = args.clock != nullptr && blockIdx.x == 0 && threadIdx.x == 0;
  const int64_t begin_cycles = timed ? clock64() : 0;
  const int64_t begin_time = timed ? nanoseconds() : 0;
  unsigned sum = 0;
  for (int64_t begin = blockIdx.x * kTile; begin < args.count; begin += gridDim.x * kTile) {
    const int64_t at = begin + threadIdx.x;
    if (begin + kTile <= args.count) {
      uint4 v[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) v[i] = load(args.data + at + i * kThreads);
#pragma unroll
      for (int i = 0; i < kLoads; ++i) sum += sum_of(v[i]);
    } else {
      for (int64_t i = at; i < args.count; i += kThreads) sum += sum_of(load(args.data + i));
    }
  }
  sum = __reduce_add_sync(0xffffffffu, sum);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = threadIdx.x < kThreads / 32 ? warp_sums[threadIdx.x] : 0;
  sum = __reduce_add_sync(0xffffffffu, sum);
  if (threadIdx.x != 0) return;
  atomicAdd(args.sums + blockIdx.x % kReadSums, sum);
  if (timed) {
    args.clock[0] = static_cast<float>(clock64() - begin_cycles);
    args.clock[1] = static_cast<float>(nanoseconds() - begin_time);
  }
}

struct Way {
  void (*kernel)(ReadKernelArgs);
  int threads;
  int loads;
  int ctas;    // of a multiprocessor, all at once
  bool stays;  // only so many; else one for each tile
};

template <int kThreads, int kLoads, int kCtas>
Way way(bool stays) {
  return {read_bytes_kernel<kThreads, kLoads, kCtas>, kThreads, kLoads, kCtas, stays};
}

}  // namespace

void read_bytes_cuda(Stream& stream, const ReadBytesArgs& args) {
  const Way ways[kReadWays] = {way<512, 8, 2>(true),  way<1024, 4, 2>(true), way<256, 8, 4>(true),
                               way<256, 16, 2>(true), way<256, 8, 4>(false), way<512, 4, 4>(false)};
  const Way& chosen = ways[args.way];
  const int64_t count = args.data.dim(0) / 16;
  const int64_t tiles = divide_up(count, static_cast<int64_t>(chosen.threads) * chosen.loads);
  const int64_t places = static_cast<int64_t>(cuda_traits(stream).multiprocessors) * chosen.ctas;
  const int64_t grid = chosen.stays ? std::min(tiles, places) : tiles;
  const bool clocked = args.way == 0 && !args.clock.empty();
  launch(stream, "read_bytes", chosen.kernel,
         {.grid = dim3(static_cast<unsigned>(grid)),
          .block = dim3(static_cast<unsigned>(chosen.threads))},
         ReadKernelArgs{reinterpret_cast<const uint4*>(args.data.as<uint8_t>()), count,
                        reinterpret_cast<unsigned*>(args.sums.as<int32_t>()),
                        clocked ? args.clock.as<float>() : nullptr});
}

}  // namespace ashlar
