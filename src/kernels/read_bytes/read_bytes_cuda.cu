// The CUDA cell of read_bytes, in two kinds of ways: 16-byte loads that keep out of the first-level
// cache, several of a thread on their way at once, and runs that the copy engine brings into shared
// memory. Ways differ in threads and loads or in stages, and in whether a few CTAs stay and walk
// over the array or each tile has a CTA of its own.
#include <algorithm>

#include "base/align.h"
#include "device/launch_cuda.h"
#include "kernels/hopper/barrier.cuh"
#include "kernels/hopper/copy.cuh"
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

// Adds what the threads of the CTA have summed.
template <int kThreads>
__device__ __forceinline__ void add_sum(const ReadKernelArgs& args, unsigned sum) {
  __shared__ unsigned warp_sums[kThreads / 32];
  sum = __reduce_add_sync(0xffffffffu, sum);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = threadIdx.x < kThreads / 32 ? warp_sums[threadIdx.x] : 0;
  sum = __reduce_add_sync(0xffffffffu, sum);
  if (threadIdx.x == 0) atomicAdd(args.sums + blockIdx.x % kReadSums, sum);
}

template <int kThreads, int kLoads, int kCtas>
__global__ void __launch_bounds__(kThreads, kCtas) read_bytes_kernel(ReadKernelArgs args) {
  constexpr int64_t kTile = static_cast<int64_t>(kThreads) * kLoads;
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
  add_sum<kThreads>(args, sum);
  if (timed) {
    args.clock[0] = static_cast<float>(clock64() - begin_cycles);
    args.clock[1] = static_cast<float>(nanoseconds() - begin_time);
  }
}

constexpr int kBulkThreads = 256;
constexpr int kStage = 2048;  // of 16 bytes

// A ring of stages that one thread asks for; all threads add up what has come.
template <int kStages, int kCtas>
__global__ void __launch_bounds__(kBulkThreads, kCtas) read_bulk_kernel(ReadKernelArgs args) {
  extern __shared__ __align__(128) uint4 stages[];
  __shared__ hopper::Barrier full[kStages];
  const int64_t tiles = (args.count + kStage - 1) / kStage;
  const auto ask = [&](int64_t tile, int stage) {
    const int64_t left = args.count - tile * kStage;
    const auto bytes = static_cast<uint32_t>((left < kStage ? left : kStage) * 16);
    hopper::barrier_expect(&full[stage], bytes);
    hopper::copy_bytes(stages + stage * kStage, args.data + tile * kStage, bytes, &full[stage],
                       hopper::kEvictFirst);
  };
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) hopper::barrier_init(&full[i], 1);
    hopper::barrier_init_fence();
  }
  __syncthreads();
  wait_for_predecessor();
  let_successor_start();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages && blockIdx.x + i * static_cast<int64_t>(gridDim.x) < tiles; ++i) {
      ask(blockIdx.x + i * static_cast<int64_t>(gridDim.x), i);
    }
  }
  unsigned sum = 0;
  int stage = 0;
  uint32_t parity = 0;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    hopper::barrier_wait(&full[stage], parity);
    const int64_t left = args.count - tile * kStage;
    const int count = static_cast<int>(left < kStage ? left : kStage);
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kBulkThreads) {
      sum += sum_of(stages[stage * kStage + i]);
    }
    __syncthreads();  // nobody reads the stage any more
    const int64_t next = tile + static_cast<int64_t>(kStages) * gridDim.x;
    if (threadIdx.x == 0 && next < tiles) ask(next, stage);
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  add_sum<kBulkThreads>(args, sum);
}

struct Way {
  void (*kernel)(ReadKernelArgs);
  int threads;
  int64_t tile;  // of 16 bytes, that a CTA takes at once
  int ctas;      // of a multiprocessor, all at once
  bool stays;    // only so many; else one for each tile
  size_t shared_bytes;
};

template <int kThreads, int kLoads, int kCtas>
Way loads(bool stays) {
  return {read_bytes_kernel<kThreads, kLoads, kCtas>,
          kThreads,
          static_cast<int64_t>(kThreads) * kLoads,
          kCtas,
          stays,
          0};
}

template <int kStages, int kCtas>
Way bulk() {
  return {read_bulk_kernel<kStages, kCtas>,          kBulkThreads, kStage, kCtas, true,
          static_cast<size_t>(kStages) * kStage * 16};
}

}  // namespace

void read_bytes_cuda(Stream& stream, const ReadBytesArgs& args) {
  const Way ways[kReadWays] = {loads<512, 8, 2>(true),
                               loads<1024, 4, 2>(true),
                               loads<256, 8, 4>(true),
                               loads<256, 16, 2>(true),
                               loads<256, 8, 4>(false),
                               loads<512, 4, 4>(false),
                               bulk<3, 2>(),
                               bulk<6, 1>()};
  const Way& chosen = ways[args.way];
  const int64_t count = args.data.dim(0) / 16;
  const int64_t tiles = divide_up(count, chosen.tile);
  const int64_t places = static_cast<int64_t>(cuda_traits(stream).multiprocessors) * chosen.ctas;
  const int64_t grid = chosen.stays ? std::min(tiles, places) : tiles;
  const bool clocked = args.way == 0 && !args.clock.empty();
  launch(stream, "read_bytes", chosen.kernel,
         {.grid = dim3(static_cast<unsigned>(grid)),
          .block = dim3(static_cast<unsigned>(chosen.threads)),
          .shared_bytes = chosen.shared_bytes},
         ReadKernelArgs{reinterpret_cast<const uint4*>(args.data.as<uint8_t>()), count,
                        reinterpret_cast<unsigned*>(args.sums.as<int32_t>()),
                        clocked ? args.clock.as<float>() : nullptr});
}

}  // namespace ashlar
