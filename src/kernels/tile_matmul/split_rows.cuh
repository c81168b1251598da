// The kernel of tile_matmul for few rows: segments of a tile on different CTAs.
//
// A unit is kGroups tiles of 64 outputs, one pass of N rows, one segment:
//
//            K ->  segment 0    segment 1    ...
//   64 outputs   [ unit       | unit       | ... ]   weights: runs of blocks, bulk copies
//    N rows      [ the same columns of x         ]   boxes of 64 inputs by tensor map
//
// One producer thread keeps kStages stages of kBlocks blocks in flight; the weights of the first
// ones leave before the wait for the predecessor, since nobody writes weights. Each warpgroup
// multiplies one tile with wgmma m64nNk16. The sums of a unit go to scratch; the CTA that arrives
// last adds the segments in ascending order and finishes the outputs. So a CTA never waits for
// another. CTAs are persistent over units.
//
// Bytes: weights once for every N rows, x once for each kGroups tiles from L2, y once. Limit:
// memory; above 64 rows x from L2 and the tensor cores. Measured on an H200 (2026-12-01), all
// matmuls of one 8B step in a graph, 145 launches, 15.14 GB, rotating through all weights:
//   rows      1      8      16     32     64
//   ms        3.64   3.65   3.72   3.93   4.43
//   GB/s      4,157  4,150  4,064  3,854  3,413    of about 4,550 that a plain read reaches
// One shape after the other, at one row: 24576 x 4096 4,494 GB/s, 6144 x 4096 3,641, 4096 x 4096
// 3,262, 4096 x 12288 4,120: what is lost is lost between matmuls, 2 to 3 us each. Tried and lost:
// - CTAs of a cluster that meet in shared memory: 64 rows 5.27 ms, one row 3.82.
// - mma.sync with all segments in one CTA: the same time with this layout. With weights in
//   strips of 16 outputs 3.58 ms at 8 rows and 3.69 at 16, but the other kernels lost more (32 rows
//   4.11 ms, many rows 3 to 15 %); there, x sent to two CTAs of a cluster made 16 rows 3.75.
// - weights prefetched into L2 ahead of their stage: 12 % slower two stages ahead, 41 % sixteen.
// - no programmatic dependent launch: 11 % slower.
#ifndef ASHLAR_KERNELS_TILE_MATMUL_SPLIT_ROWS_CUH_
#define ASHLAR_KERNELS_TILE_MATMUL_SPLIT_ROWS_CUH_

#include "kernels/hopper/copy.cuh"
#include "kernels/hopper/dependent_launch.cuh"
#include "kernels/hopper/wgmma.cuh"
#include "kernels/tile_matmul/tile_args.cuh"

namespace ashlar::tile_matmul_cuda {

using hopper::Barrier;

// Arrivals at each group of tiles and pass, between units 0; the last one puts it back.
constexpr int kMaxArrivals = 16384;
__device__ uint32_t split_rows_arrivals[kMaxArrivals];

template <int groups, int n, int blocks, int stages, int ctas>
struct SplitRowsShape {
  static constexpr int kGroups = groups;  // tiles, and consumer warpgroups, of a CTA
  static constexpr int N = n;             // rows of the step that one pass takes
  static constexpr int kBlocks = blocks;  // of a stage: 1 or 2
  static constexpr int kStages = stages;
  static constexpr int kCtas = ctas;  // of a multiprocessor
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
  uint32_t last;  // whether this CTA finishes the unit's outputs
};

// Spreads what a warp writes, and four outputs in a row that a thread reads, over the banks.
__device__ __forceinline__ int sum_place(int row, int output) {
  return row * 64 + (output ^ (((row >> 1) & 3) << 3));
}

// The stages of a CTA in order. Units: tile groups, within them passes, within them segments. What
// a unit is gets worked out once a unit: divisions in the producer's loop would be its limit.
template <class Shape>
struct SplitRowsCursor {
  const TileArgs& args;
  int passes;
  int units;
  int unit;
  int segment = 0;  // of the unit
  int place = 0;    // tile group and pass
  int first_tile = 0;
  int first_row = 0;
  int count = 0;  // blocks of the segment
  int block = 0;
  int stage = 0;
  uint32_t parity = 0;

  __device__ SplitRowsCursor(const TileArgs& args) : args(args) {
    passes = (args.rows + Shape::N - 1) / Shape::N;
    // Tiles of which no column is computed are at the end, and nobody's.
    const int outputs = args.finish == Finish::kStoreF32 ? args.computed : args.tiles * 64;
    const int tile_groups = (outputs + Shape::kGroups * 64 - 1) / (Shape::kGroups * 64);
    units = tile_groups * passes * args.segments;
    begin(blockIdx.x);
  }
  __device__ void begin(int new_unit) {
    unit = new_unit;
    segment = unit % args.segments;
    place = unit / args.segments;
    first_tile = place / passes * Shape::kGroups;
    first_row = place % passes * Shape::N;
    count = 2 * args.pairs_of(segment);
    block = 0;
  }
  __device__ bool done() const { return unit >= units; }
  __device__ void next() {
    block += Shape::kBlocks;
    if (block == count) begin(unit + gridDim.x);
    if (++stage == Shape::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

template <class Shape>
__device__ void send_weights(SplitRowsShared<Shape>& shared, const SplitRowsCursor<Shape>& cursor) {
  const TileArgs& args = cursor.args;
  Barrier* full = &shared.full[cursor.stage];
  hopper::barrier_expect(full, Shape::kStageBytes);
#pragma unroll
  for (int g = 0; g < Shape::kGroups; ++g) {
    const std::byte* from = args.step_of(cursor.first_tile + g, cursor.block / 2) +
                            (cursor.segment * 2 + cursor.block % 2) * kBlockBytes;
    hopper::copy_bytes(shared.stages[cursor.stage] + g * Shape::kBlocks * kBlockBytes, from,
                       Shape::kBlocks * kBlockBytes, full, hopper::kEvictFirst);
  }
}

template <class Shape>
__device__ void send_rows(SplitRowsShared<Shape>& shared, const SplitRowsCursor<Shape>& cursor,
                          const CUtensorMap& x) {
  const int first = 2 * cursor.args.first_pair(cursor.segment) + cursor.block;
#pragma unroll
  for (int b = 0; b < Shape::kBlocks; ++b) {
    hopper::copy_box(shared.stages[cursor.stage] + Shape::kWeightBytes + b * Shape::kBoxBytes, &x,
                     (first + b) * static_cast<int>(kBlockInputs), cursor.first_row,
                     &shared.full[cursor.stage], hopper::kEvictLast);
  }
}

// One thread.
template <class Shape>
__device__ void produce(SplitRowsShared<Shape>& shared, SplitRowsCursor<Shape> cursor,
                        const CUtensorMap& x) {
  SplitRowsCursor<Shape> ahead = cursor;
  for (int i = 0; i < Shape::kStages && !ahead.done(); ++i, ahead.next()) {
    send_weights(shared, ahead);
  }
  wait_for_predecessor();
  for (int i = 0; !cursor.done(); ++i, cursor.next()) {
    if (i >= Shape::kStages) {
      hopper::barrier_wait(&shared.empty[cursor.stage], cursor.parity ^ 1);
      send_weights(shared, cursor);
    }
    send_rows(shared, cursor, x);
  }
}

// The chain of the unit at `cursor`, into d.
template <class Shape>
__device__ __forceinline__ void multiply(SplitRowsShared<Shape>& shared,
                                         SplitRowsCursor<Shape>& cursor, int group,
                                         float (&d)[Shape::N / 2]) {
  const bool elected = threadIdx.x % 32 == 0;
  const int steps = cursor.count / Shape::kBlocks;
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

// Hands d over, and for the last CTA to arrive replaces it by the sum of all segments. False for
// the others.
template <class Shape>
__device__ __forceinline__ bool gather_segments(SplitRowsShared<Shape>& shared,
                                                const TileArgs& args, int place, int segment,
                                                float (&d)[Shape::N / 2]) {
  constexpr int kQuads = Shape::N / 8;  // of registers
  // [place][segment][quad][thread]
  float4* mine =
      reinterpret_cast<float4*>(args.sums) +
      (static_cast<int64_t>(place) * args.segments + segment) * kQuads * Shape::kConsumers +
      threadIdx.x;
#pragma unroll
  for (int i = 0; i < kQuads; ++i) {
    __stcg(mine + i * Shape::kConsumers,
           make_float4(d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]));
  }
  __threadfence();
  hopper::named_sync(1, Shape::kConsumers);
  if (threadIdx.x == 0) {
    const uint32_t before = atomicAdd(&split_rows_arrivals[place], 1);
    shared.last = before + 1 == static_cast<uint32_t>(args.segments);
    if (shared.last != 0) split_rows_arrivals[place] = 0;
    __threadfence();
  }
  hopper::named_sync(1, Shape::kConsumers);
  if (shared.last == 0) return false;
  const float4* from = mine - static_cast<int64_t>(segment) * kQuads * Shape::kConsumers;
  for (int s = 0; s < args.segments; ++s, from += kQuads * Shape::kConsumers) {
    float4 v[kQuads];
#pragma unroll
    for (int i = 0; i < kQuads; ++i) v[i] = __ldcg(from + i * Shape::kConsumers);
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      d[4 * i] = s == 0 ? v[i].x : __fadd_rn(d[4 * i], v[i].x);
      d[4 * i + 1] = s == 0 ? v[i].y : __fadd_rn(d[4 * i + 1], v[i].y);
      d[4 * i + 2] = s == 0 ? v[i].z : __fadd_rn(d[4 * i + 2], v[i].z);
      d[4 * i + 3] = s == 0 ? v[i].w : __fadd_rn(d[4 * i + 3], v[i].w);
    }
  }
  return true;
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

// Four outputs of one row at a time.
template <class Shape, Finish kind>
__device__ void finish_as(const SplitRowsShared<Shape>& shared, const TileArgs& args,
                          int first_tile, int first_row) {
  constexpr int kWidth = is_gated(kind) ? 32 : 64;  // columns of y that a tile makes
  constexpr int kRowUnits = kWidth / 4 * Shape::kGroups;
  const int rows = min(Shape::N, args.rows - first_row);
  for (int u = threadIdx.x; u < rows * kRowUnits; u += Shape::kConsumers) {
    const int row = u / kRowUnits;
    const int group = u % kRowUnits / (kWidth / 4);
    const int o = u % (kWidth / 4) * 4;
    const int64_t m = first_row + row;
    const int64_t column = static_cast<int64_t>(first_tile + group) * kWidth + o;
    const float* sums = &shared.sums[group][0][0];
    const int at = sum_place(row, is_gated(kind) ? o / 8 * 16 + o % 8 : o);
    if constexpr (is_gated(kind)) {
      const int up_at = sum_place(row, o / 8 * 16 + o % 8 + 8);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (column + i >= args.columns) continue;
        finish_gated<kind>(args, m, column + i, sums[at + i], sums[up_at + i]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (column + i < args.columns) finish_plain<kind>(args, m, column + i, sums[at + i]);
      }
    }
  }
}

template <class Shape>
__device__ void finish(const SplitRowsShared<Shape>& shared, const TileArgs& args, int first_tile,
                       int first_row) {
  switch (args.finish) {
    case Finish::kStoreBf16:
      return finish_as<Shape, Finish::kStoreBf16>(shared, args, first_tile, first_row);
    case Finish::kStoreF32:
      return finish_as<Shape, Finish::kStoreF32>(shared, args, first_tile, first_row);
    case Finish::kAddF32:
      return finish_as<Shape, Finish::kAddF32>(shared, args, first_tile, first_row);
    case Finish::kGatedSilu:
      return finish_as<Shape, Finish::kGatedSilu>(shared, args, first_tile, first_row);
    case Finish::kGatedGeluTanh:
      return finish_as<Shape, Finish::kGatedGeluTanh>(shared, args, first_tile, first_row);
  }
}

template <class Shape>
__device__ void consume(SplitRowsShared<Shape>& shared, SplitRowsCursor<Shape> cursor) {
  const TileArgs& args = cursor.args;
  const int group = threadIdx.x / 128;
  float d[Shape::N / 2];
  wait_for_predecessor();
  while (!cursor.done()) {
    const int first_tile = cursor.first_tile;
    const int first_row = cursor.first_row;
    const int place = cursor.place, segment = cursor.segment;
    multiply(shared, cursor, group, d);
    if (args.segments > 1 && !gather_segments(shared, args, place, segment, d)) continue;
    put_sums(shared.sums[group], d);
    hopper::named_sync(1, Shape::kConsumers);
    finish(shared, args, first_tile, first_row);
    hopper::named_sync(1, Shape::kConsumers);
  }
  mask_rest(args, Shape::kGroups * 64, Shape::kConsumers);
}

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kCtas)
    split_rows_kernel(const TileArgs args, const __grid_constant__ CUtensorMap x) {
  extern __shared__ __align__(1024) std::byte memory[];
  auto& shared = *reinterpret_cast<SplitRowsShared<Shape>*>(memory);
  const bool producer = threadIdx.x == Shape::kConsumers;
  if (producer) {
    hopper::prefetch_map(&x);
    for (int i = 0; i < Shape::kStages; ++i) {
      hopper::barrier_init(&shared.full[i], 1);
      hopper::barrier_init(&shared.empty[i], Shape::kConsumers / 32);
    }
    hopper::barrier_init_fence();
  }
  let_successor_start();
  __syncthreads();
  const SplitRowsCursor<Shape> cursor(args);
  if (threadIdx.x < Shape::kConsumers) {
    consume(shared, cursor);
  } else if (producer) {
    produce(shared, cursor, x);
  }
}

}  // namespace ashlar::tile_matmul_cuda

#endif  // ASHLAR_KERNELS_TILE_MATMUL_SPLIT_ROWS_CUH_
