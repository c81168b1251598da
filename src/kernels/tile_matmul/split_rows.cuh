// The kernel of tile_matmul for 17 to some hundred rows: segments of a tile on the CTAs of a
// cluster.
//
// A cluster makes kGroups tiles of 64 outputs for N rows; its CTA s makes segment s of them:
//
//            K ->  segment 0      segment 1      ...
//   64 outputs   [ CTA 0        | CTA 1        | ... ]   weights: runs of 8 KB blocks, bulk copies
//    N rows      [ the same columns of x             ]   boxes of 64 inputs by tensor map
//
// One producer thread keeps kStages stages of kBlocks blocks in flight; the weights of the first
// ones leave before the wait for the predecessor, since nobody writes weights. Each warpgroup
// multiplies one tile with wgmma m64nNk16 from shared memory. At the end every CTA puts its sums
// into its own shared memory, and each folds a share of the outputs: the segments of all CTAs in
// ascending order, then the epilogue. CTAs are persistent over tiles; two of them share a
// multiprocessor when kGroups is 1. Tried and lost: prefetching weights into L2 beyond the stages
// (two stages ahead 12 % slower, sixteen 41 %, measured with 8 rows).
//
// Bytes: weights once for every N rows, x once for each tile from L2, y once. Limit: memory.
#ifndef ASHLAR_KERNELS_TILE_MATMUL_SPLIT_ROWS_CUH_
#define ASHLAR_KERNELS_TILE_MATMUL_SPLIT_ROWS_CUH_

#include "kernels/hopper/copy.cuh"
#include "kernels/hopper/dependent_launch.cuh"
#include "kernels/hopper/wgmma.cuh"
#include "kernels/tile_matmul/tile_args.cuh"

namespace ashlar::tile_matmul_cuda {

using hopper::Barrier;

template <int groups, int n, int blocks, int stages>
struct SplitRowsShape {
  static constexpr int kGroups = groups;  // tiles, and consumer warpgroups, of a CTA
  static constexpr int N = n;             // rows of the step that one pass takes
  static constexpr int kBlocks = blocks;  // of a stage
  static constexpr int kStages = stages;
  static constexpr int kConsumers = groups * 128;
  static constexpr int kThreads = kConsumers + 32;
  static constexpr int kWeightBytes = groups * blocks * 8192;  // of a stage
  static constexpr int kBoxBytes = n * 128;
  static constexpr int kStageBytes = kWeightBytes + blocks * kBoxBytes;
  static constexpr int kSumBytes = groups * n * 64 * 4;
  static constexpr int kSharedBytes = stages * kStageBytes + kSumBytes + 256;
};

template <class Shape>
struct SplitRowsShared {
  alignas(1024) std::byte stages[Shape::kStages][Shape::kStageBytes];
  float sums[Shape::kGroups][Shape::N][64];  // [tile][row][output], see sum_place()
  Barrier full[Shape::kStages];
  Barrier empty[Shape::kStages];
  Barrier sums_ready;  // a phase an item: sums of all CTAs are there
  Barrier sums_free;   // a phase an item: all CTAs have read
};

// Spreads what a warp writes, and four outputs in a row that a thread reads, over the banks.
__device__ __forceinline__ int sum_place(int row, int output) {
  return row * 64 + (output ^ (((row >> 1) & 3) << 3));
}

// The stages of a CTA, in order: items (tile group, rows), and the blocks of one segment in each.
template <class Shape>
struct StageCursor {
  const TileArgs& args;
  int item, items, item_step, row_passes;
  int begin, end;  // blocks of the segment
  int block;
  int stage = 0;
  uint32_t parity = 0;

  __device__ bool done() const { return item >= items; }
  __device__ int first_tile() const { return item / row_passes * Shape::kGroups; }
  __device__ int first_row() const { return item % row_passes * Shape::N; }
  // Tiles of which no column is computed need no weights.
  __device__ bool skipped() const {
    return args.finish == Finish::kStoreF32 && first_tile() * 64 >= args.computed;
  }
  __device__ void next_item() {
    item += item_step;
    block = begin;
    while (!done() && skipped()) item += item_step;
  }
  __device__ void next() {
    block += Shape::kBlocks;
    if (block >= end) next_item();
    if (++stage == Shape::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

template <class Shape>
__device__ StageCursor<Shape> first_stage(const TileArgs& args, int rank) {
  const int row_passes = (args.rows + Shape::N - 1) / Shape::N;
  const int clusters = gridDim.x / args.segments;
  StageCursor<Shape> cursor = {args, static_cast<int>(blockIdx.x / args.segments) - clusters,
                               args.tiles / Shape::kGroups * row_passes, clusters, row_passes};
  cursor.begin = static_cast<int>(segment_begin(args.blocks, args.segments, rank));
  cursor.end = static_cast<int>(segment_begin(args.blocks, args.segments, rank + 1));
  cursor.next_item();
  return cursor;
}

template <class Shape>
__device__ void send_weights(SplitRowsShared<Shape>& shared, const StageCursor<Shape>& cursor) {
  Barrier* full = &shared.full[cursor.stage];
  hopper::barrier_expect(full, Shape::kStageBytes);
#pragma unroll
  for (int g = 0; g < Shape::kGroups; ++g) {
    hopper::copy_bytes(shared.stages[cursor.stage] + g * Shape::kBlocks * 8192,
                       cursor.args.block(cursor.first_tile() + g, cursor.block),
                       Shape::kBlocks * 8192, full, hopper::kEvictFirst);
  }
}

template <class Shape>
__device__ void send_rows(SplitRowsShared<Shape>& shared, const StageCursor<Shape>& cursor,
                          const CUtensorMap& x) {
  for (int i = 0; i < Shape::kBlocks; ++i) {
    hopper::copy_box(shared.stages[cursor.stage] + Shape::kWeightBytes + i * Shape::kBoxBytes, &x,
                     (cursor.block + i) * static_cast<int>(kBlockInputs), cursor.first_row(),
                     &shared.full[cursor.stage], hopper::kEvictLast);
  }
}

// One thread. The weights of the first stages leave before the wait for the predecessor, since
// nobody writes weights.
template <class Shape>
__device__ void prime(SplitRowsShared<Shape>& shared, StageCursor<Shape> ahead) {
  for (int i = 0; i < Shape::kStages && !ahead.done(); ++i, ahead.next()) {
    send_weights(shared, ahead);
  }
}

template <class Shape>
__device__ void produce(SplitRowsShared<Shape>& shared, StageCursor<Shape> cursor,
                        const CUtensorMap& x) {
  wait_for_predecessor();
  for (int i = 0; !cursor.done(); ++i, cursor.next()) {
    if (i >= Shape::kStages) {
      hopper::barrier_wait(&shared.empty[cursor.stage], cursor.parity ^ 1);
      send_weights(shared, cursor);
    }
    send_rows(shared, cursor, x);
  }
}

// The chain of one segment: all blocks of the item at `cursor`, into d.
template <class Shape>
__device__ __forceinline__ void multiply(SplitRowsShared<Shape>& shared, StageCursor<Shape>& cursor,
                                         int group, bool elected, float (&d)[Shape::N / 2]) {
  const int steps = (cursor.end - cursor.begin) / Shape::kBlocks;
  int previous = 0;
  hopper::hold_accumulators(d);
  for (int step = 0; step < steps; ++step) {
    hopper::barrier_wait(&shared.full[cursor.stage], cursor.parity);
    const std::byte* stage = shared.stages[cursor.stage];
    const uint64_t a = hopper::wgmma_operand(stage + group * Shape::kBlocks * 8192);
    const uint64_t b = hopper::wgmma_operand(stage + Shape::kWeightBytes);
    hopper::wgmma_fence();
#pragma unroll
    for (int i = 0; i < Shape::kBlocks; ++i) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        hopper::Wgmma<Shape::N>::run(d, a + i * (8192 >> 4) + k * hopper::kOperandStep,
                                     b + i * (Shape::kBoxBytes >> 4) + k * hopper::kOperandStep,
                                     step > 0 || i > 0 || k > 0);
      }
    }
    hopper::wgmma_commit();
    hopper::wgmma_wait<1>();
    if (step > 0 && elected) hopper::barrier_arrive(&shared.empty[previous]);
    previous = cursor.stage;
    cursor.next();
  }
  hopper::wgmma_wait<0>();
  hopper::hold_accumulators(d);
  if (elected) hopper::barrier_arrive(&shared.empty[previous]);
}

template <int count>
__device__ __forceinline__ void put_sums(float (*sums)[64], const float (&d)[count]) {
  const int thread = threadIdx.x % 128;
  const int output = thread / 32 * 16 + thread % 32 / 4;
  float* base = &sums[0][0];
#pragma unroll
  for (int j = 0; j < count / 4; ++j) {
    const int row = 8 * j + 2 * (thread % 4);
    base[sum_place(row, output)] = d[4 * j];
    base[sum_place(row + 1, output)] = d[4 * j + 1];
    base[sum_place(row, output + 8)] = d[4 * j + 2];
    base[sum_place(row + 1, output + 8)] = d[4 * j + 3];
  }
}

// Four outputs in a row of one row, over all segments in ascending order. All loads leave before
// the first addition, since another CTA's memory is far away.
__device__ __forceinline__ float4 fold(const float* place, int segments) {
  float4 v[kMaxSegments];
#pragma unroll
  for (int s = 0; s < kMaxSegments; ++s) {
    if (s >= segments) continue;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v[s].x), "=f"(v[s].y), "=f"(v[s].z), "=f"(v[s].w)
                 : "r"(hopper::cluster_address(place, s)));
  }
#pragma unroll
  for (int s = 1; s < kMaxSegments; ++s) {
    if (s >= segments) continue;
    v[0].x = __fadd_rn(v[0].x, v[s].x);
    v[0].y = __fadd_rn(v[0].y, v[s].y);
    v[0].z = __fadd_rn(v[0].z, v[s].z);
    v[0].w = __fadd_rn(v[0].w, v[s].w);
  }
  return v[0];
}

// This CTA's share of the item's outputs. A unit is four outputs of one row.
template <class Shape, Finish kind>
__device__ void finish_as(SplitRowsShared<Shape>& shared, const TileArgs& args, int first_tile,
                          int first_row, int rank) {
  constexpr int kWidth = is_gated(kind) ? 32 : 64;  // columns of y that a tile makes
  constexpr int kRowUnits = kWidth / 4 * Shape::kGroups;
  const int rows = min(Shape::N, args.rows - first_row);
  for (int u = rank * Shape::kConsumers + threadIdx.x; u < rows * kRowUnits;
       u += args.segments * Shape::kConsumers) {
    const int row = u / kRowUnits;
    const int group = u % kRowUnits / (kWidth / 4);
    const int o = u % (kWidth / 4) * 4;
    const int64_t m = first_row + row;
    const int64_t column = static_cast<int64_t>(first_tile + group) * kWidth + o;
    const float* sums = &shared.sums[group][0][0];
    if constexpr (is_gated(kind)) {
      const int gate_row = o / 8 * 16 + o % 8;
      const float4 gate = fold(sums + sum_place(row, gate_row), args.segments);
      const float4 up = fold(sums + sum_place(row, gate_row + 8), args.segments);
      const float gates[4] = {gate.x, gate.y, gate.z, gate.w};
      const float ups[4] = {up.x, up.y, up.z, up.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (column + i < args.columns) finish_gated<kind>(args, m, column + i, gates[i], ups[i]);
      }
    } else {
      const float4 sum = fold(sums + sum_place(row, o), args.segments);
      const float values[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (column + i < args.columns) finish_plain<kind>(args, m, column + i, values[i]);
      }
    }
  }
}

template <class Shape>
__device__ void finish(SplitRowsShared<Shape>& shared, const TileArgs& args, int first_tile,
                       int first_row, int rank) {
  switch (args.finish) {
    case Finish::kStoreBf16:
      return finish_as<Shape, Finish::kStoreBf16>(shared, args, first_tile, first_row, rank);
    case Finish::kStoreF32:
      return finish_as<Shape, Finish::kStoreF32>(shared, args, first_tile, first_row, rank);
    case Finish::kAddF32:
      return finish_as<Shape, Finish::kAddF32>(shared, args, first_tile, first_row, rank);
    case Finish::kGatedSilu:
      return finish_as<Shape, Finish::kGatedSilu>(shared, args, first_tile, first_row, rank);
    case Finish::kGatedGeluTanh:
      return finish_as<Shape, Finish::kGatedGeluTanh>(shared, args, first_tile, first_row, rank);
  }
}

template <class Shape>
__device__ void consume(SplitRowsShared<Shape>& shared, const TileArgs& args,
                        StageCursor<Shape> cursor, int rank) {
  const int group = threadIdx.x / 128;
  const bool elected = threadIdx.x % 32 == 0;
  const bool alone = args.segments == 1;
  float d[Shape::N / 2];
  uint32_t parity = 0;
  bool waited = false;
  while (!cursor.done()) {
    const int first_tile = cursor.first_tile();
    const int first_row = cursor.first_row();
    multiply(shared, cursor, group, elected, d);
    // Others may still read the sums of the item before.
    if (!alone) hopper::barrier_wait_cluster(&shared.sums_free, parity ^ 1);
    put_sums(shared.sums[group], d);
    hopper::named_sync(1, Shape::kConsumers);
    if (!alone) {
      if (threadIdx.x < args.segments) {
        hopper::barrier_arrive_cluster(&shared.sums_ready, threadIdx.x);
      }
      hopper::barrier_wait_cluster(&shared.sums_ready, parity);
    }
    if (!waited) wait_for_predecessor();
    waited = true;
    finish(shared, args, first_tile, first_row, rank);
    hopper::named_sync(1, Shape::kConsumers);
    if (!alone && threadIdx.x < args.segments) {
      hopper::barrier_arrive_cluster(&shared.sums_free, threadIdx.x);
    }
    parity ^= 1;
  }
  // Nobody leaves while another CTA may read its sums or arrive at its barriers.
  if (!alone && waited) hopper::barrier_wait_cluster(&shared.sums_free, parity ^ 1);
  if (!waited) wait_for_predecessor();
  mask_rest(args, Shape::kGroups * 64, Shape::kConsumers);
}

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kGroups == 1 ? 2 : 1)
    split_rows_kernel(const TileArgs args, const __grid_constant__ CUtensorMap x) {
  extern __shared__ __align__(1024) std::byte memory[];
  auto& shared = *reinterpret_cast<SplitRowsShared<Shape>*>(memory);
  const int rank = static_cast<int>(blockIdx.x % args.segments);
  const bool producer = threadIdx.x == Shape::kConsumers;
  const StageCursor<Shape> cursor = first_stage<Shape>(args, rank);
  if (producer) {
    hopper::prefetch_map(&x);
    for (int i = 0; i < Shape::kStages; ++i) {
      hopper::barrier_init(&shared.full[i], 1);
      hopper::barrier_init(&shared.empty[i], Shape::kGroups * 4);
    }
    hopper::barrier_init(&shared.sums_ready, args.segments);
    hopper::barrier_init(&shared.sums_free, args.segments);
    hopper::barrier_init_fence();
    prime(shared, cursor);
  }
  let_successor_start();
  __syncthreads();
  if (args.segments > 1) hopper::cluster_sync();
  if (threadIdx.x < Shape::kConsumers) {
    consume(shared, args, cursor, rank);
  } else if (producer) {
    produce(shared, cursor, x);
  }
}

}  // namespace ashlar::tile_matmul_cuda

#endif  // ASHLAR_KERNELS_TILE_MATMUL_SPLIT_ROWS_CUH_
