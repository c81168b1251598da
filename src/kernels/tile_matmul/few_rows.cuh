// The kernel of tile_matmul for up to 16 rows: weights stream once, at the speed of memory.
//
// A CTA makes 64 / S outputs for all rows; each of its four consumer warps makes sixteen outputs of
// one of the S segments with mma.sync m16n8k16, and the segments meet in shared memory:
//
//   S = 4: warp w = segment w of 16 outputs      S = 1: warp w = outputs 16 w ... of one segment
//
// One producer thread keeps kStages stages in flight; a stage holds two blocks of 64 inputs of each
// segment: 16 KB of weights in one run, and boxes of x. The weights of the first stages
// leave before the wait for the predecessor, since nobody writes weights. Several small CTAs share
// a multiprocessor: as one ends, one of the next kernel begins to prefetch. That is why segments
// meet within a CTA: a cluster's fold at the end (split_rows.cuh) idles memory for 3 us a matmul.
//
// Bytes: weights once, x once for each cluster from L2, y once. Limit: memory.
#ifndef ASHLAR_KERNELS_TILE_MATMUL_FEW_ROWS_CUH_
#define ASHLAR_KERNELS_TILE_MATMUL_FEW_ROWS_CUH_

#include "kernels/hopper/copy.cuh"
#include "kernels/hopper/dependent_launch.cuh"
#include "kernels/hopper/mma.cuh"
#include "kernels/tile_matmul/tile_args.cuh"

namespace ashlar::tile_matmul_cuda {

template <int segments, int n, int stages, int ctas, int cluster>
struct FewRowsShape {
  static constexpr int S = segments;
  static constexpr int N = n;  // rows of the step
  static constexpr int kStages = stages;
  static constexpr int kCtas = ctas;        // of a multiprocessor
  static constexpr int kCluster = cluster;  // CTAs that share the boxes of x
  static constexpr int kOutputs = 64 / S;
  static constexpr int kRunBytes = kOutputs * 128;
  static constexpr int kBoxBytes = n * 128;
  static constexpr int kBlocks = 2;                             // of a segment in a stage
  static constexpr int kWeightBytes = S * kBlocks * kRunBytes;  // 16 KB
  static constexpr int kStageBytes = kWeightBytes + S * kBlocks * kBoxBytes;
  static constexpr int kConsumers = 128;
  static constexpr int kThreads = kConsumers + 32;
  static constexpr int kSumBytes = 4 * n * 20 * 4;
  static constexpr int kSharedBytes = stages * kStageBytes + kSumBytes + 128;
};

template <class Shape>
struct FewRowsShared {
  // weights [segment][block][64 / S rows], x [block][segment][N rows]
  alignas(1024) std::byte stages[Shape::kStages][Shape::kStageBytes];
  float sums[4][Shape::N][20];  // [warp][row][output]: 16, and 4 that spread the banks
  hopper::Barrier full[Shape::kStages];
  hopper::Barrier empty[Shape::kStages];
};

// The stages of a CTA in order. Segments differ by a pair of blocks at most, so only the last stage
// of an item may lack some.
template <class Shape>
struct FewRowsCursor {
  const TileArgs& args;
  int item;  // a strip
  int stage = 0;
  uint32_t parity = 0;
  int step = 0;  // pairs of blocks done

  __device__ FewRowsCursor(const TileArgs& args) : args(args), item(blockIdx.x) {}
  // Items of which no column is computed are at the end, and nobody's. All CTAs of a cluster have
  // equally many.
  __device__ bool done() const {
    const int outputs = args.finish == Finish::kStoreF32 ? args.computed : args.tiles * 64;
    return item / Shape::kCluster * Shape::kCluster * Shape::kOutputs >= outputs;
  }
  // Segments that take part in this step.
  __device__ int present() const { return step < args.whole ? Shape::S : args.longer; }
  __device__ void next() {
    if (++step == args.steps) {
      step = 0;
      item += gridDim.x;
    }
    if (++stage == Shape::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

template <class Shape>
__device__ void send_weights(FewRowsShared<Shape>& shared, const FewRowsCursor<Shape>& cursor) {
  const int blocks = cursor.present() * 2;
  hopper::Barrier* full = &shared.full[cursor.stage];
  hopper::barrier_expect(full, blocks * (Shape::kRunBytes + Shape::kBoxBytes));
  hopper::copy_bytes(shared.stages[cursor.stage], cursor.args.step_of(cursor.item, cursor.step),
                     blocks * Shape::kRunBytes, full, hopper::kEvictFirst);
}

// Boxes of x: of a stage's two blocks in turn, a box for each segment. Every CTA of the cluster
// sends its share to all.
template <class Shape>
__device__ void send_rows(FewRowsShared<Shape>& shared, const FewRowsCursor<Shape>& cursor,
                          const CUtensorMap& x) {
  constexpr uint16_t kAll = (1 << Shape::kCluster) - 1;
  const TileArgs& args = cursor.args;
  std::byte* to = shared.stages[cursor.stage] + Shape::kWeightBytes;
  hopper::Barrier* full = &shared.full[cursor.stage];
  const int rank = static_cast<int>(blockIdx.x % Shape::kCluster);
  for (int i = rank; i < cursor.present() * 2; i += Shape::kCluster) {
    const int segment = i / 2;
    std::byte* box = to + (i % 2 * Shape::S + segment) * Shape::kBoxBytes;
    const int column =
        ((args.first_pair(segment) + cursor.step) * 2 + i % 2) * static_cast<int>(kBlockInputs);
    if constexpr (Shape::kCluster == 1) {
      hopper::copy_box(box, &x, column, 0, full, hopper::kEvictLast);
    } else {
      hopper::copy_box_multicast(box, &x, column, 0, full, kAll, hopper::kEvictLast);
    }
  }
}

// One thread.
template <class Shape>
__device__ void produce(FewRowsShared<Shape>& shared, FewRowsCursor<Shape> cursor,
                        const CUtensorMap& x) {
  FewRowsCursor<Shape> ahead = cursor;
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

// 16 outputs x N rows += 64 inputs. a: sixteen rows of weights, b: N rows of x, both swizzled.
template <int N>
__device__ __forceinline__ void multiply_block(float (&d)[N / 8][4], uint32_t a, uint32_t b) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    uint32_t rows[N / 8][4];  // 32 inputs of eight rows
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
      const int row = j * 8 + lane % 8;
      hopper::load_matrices(rows[j], b + row * 128 + (((half * 4 + lane / 8) ^ (lane % 8)) << 4));
    }
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      uint32_t weights[4];
      const int chunk = half * 4 + k * 2 + lane / 16;
      hopper::load_matrices(weights, a + lane % 16 * 128 + ((chunk ^ (lane % 8)) << 4));
#pragma unroll
      for (int j = 0; j < N / 8; ++j) {
        hopper::mma_16x8x16(d[j], weights, rows[j][2 * k], rows[j][2 * k + 1]);
      }
    }
  }
}

// One segment of the item for this warp's sixteen outputs.
template <class Shape>
__device__ void multiply(FewRowsShared<Shape>& shared, FewRowsCursor<Shape>& cursor,
                         float (&d)[Shape::N / 8][4]) {
  const int warp = threadIdx.x / 32;
  const int segment = Shape::S == 1 ? 0 : warp % Shape::S;
  const int rows = Shape::S == 4 ? 0 : warp / Shape::S * 16;  // first of the run
  const int item = cursor.item;
  while (cursor.item == item) {
    hopper::barrier_wait(&shared.full[cursor.stage], cursor.parity);
    if (segment < cursor.present()) {
      const uint32_t stage = hopper::shared_address(shared.stages[cursor.stage]);
#pragma unroll
      for (int b = 0; b < Shape::kBlocks; ++b) {
        multiply_block<Shape::N>(
            d, stage + (segment * 2 + b) * Shape::kRunBytes + rows * 128,
            stage + Shape::kWeightBytes + (b * Shape::S + segment) * Shape::kBoxBytes);
      }
    }
    __syncwarp();
    if (threadIdx.x % 32 < Shape::kCluster) {
      hopper::barrier_arrive_at(&shared.empty[cursor.stage], threadIdx.x % 32);
    }
    cursor.next();
  }
}

// Output o of the CTA, over all segments in ascending order.
template <class Shape>
__device__ __forceinline__ float fold(const FewRowsShared<Shape>& shared, int row, int o) {
  const int first = Shape::S == 4 ? 0 : o / 16 * Shape::S;
  float sum = shared.sums[first][row][o % 16];
#pragma unroll
  for (int s = 1; s < Shape::S; ++s) {
    sum = __fadd_rn(sum, shared.sums[first + s][row][o % 16]);
  }
  return sum;
}

template <class Shape, Finish kind>
__device__ void finish_as(const FewRowsShared<Shape>& shared, const TileArgs& args, int item) {
  constexpr int kWidth = is_gated(kind) ? Shape::kOutputs / 2 : Shape::kOutputs;
  const int64_t first = static_cast<int64_t>(item) * kWidth;
  for (int u = threadIdx.x; u < args.rows * kWidth; u += Shape::kConsumers) {
    const int row = u / kWidth;
    const int o = u % kWidth;
    if (first + o >= args.columns) continue;
    if constexpr (is_gated(kind)) {
      const int gate = o / 8 * 16 + o % 8;
      finish_gated<kind>(args, row, first + o, fold(shared, row, gate),
                         fold(shared, row, gate + 8));
    } else {
      finish_plain<kind>(args, row, first + o, fold(shared, row, o));
    }
  }
}

template <class Shape>
__device__ void finish(const FewRowsShared<Shape>& shared, const TileArgs& args, int item) {
  switch (args.finish) {
    case Finish::kStoreBf16:
      return finish_as<Shape, Finish::kStoreBf16>(shared, args, item);
    case Finish::kStoreF32:
      return finish_as<Shape, Finish::kStoreF32>(shared, args, item);
    case Finish::kAddF32:
      return finish_as<Shape, Finish::kAddF32>(shared, args, item);
    case Finish::kGatedSilu:
      return finish_as<Shape, Finish::kGatedSilu>(shared, args, item);
    case Finish::kGatedGeluTanh:
      return finish_as<Shape, Finish::kGatedGeluTanh>(shared, args, item);
  }
}

template <class Shape>
__device__ void consume(FewRowsShared<Shape>& shared, FewRowsCursor<Shape> cursor) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const TileArgs& args = cursor.args;
  wait_for_predecessor();
  while (!cursor.done()) {
    const int item = cursor.item;
    float d[Shape::N / 8][4] = {};
    multiply(shared, cursor, d);
#pragma unroll
    for (int j = 0; j < Shape::N / 8; ++j) {
      const int row = 8 * j + 2 * (lane % 4);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        shared.sums[warp][row + i % 2][lane / 4 + i / 2 * 8] = d[j][i];
      }
    }
    hopper::named_sync(1, Shape::kConsumers);
    finish(shared, args, item);
    hopper::named_sync(1, Shape::kConsumers);
  }
  mask_rest(args, Shape::kOutputs * Shape::kCluster, Shape::kConsumers);
}

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kCtas)
    few_rows_kernel(const TileArgs args, const __grid_constant__ CUtensorMap x) {
  extern __shared__ __align__(1024) std::byte memory[];
  auto& shared = *reinterpret_cast<FewRowsShared<Shape>*>(memory);
  const bool producer = threadIdx.x == Shape::kConsumers;
  if (producer) {
    hopper::prefetch_map(&x);
    for (int i = 0; i < Shape::kStages; ++i) {
      hopper::barrier_init(&shared.full[i], 1);
      hopper::barrier_init(&shared.empty[i], Shape::kCluster * Shape::kConsumers / 32);
    }
    hopper::barrier_init_fence();
  }
  let_successor_start();
  __syncthreads();
  if constexpr (Shape::kCluster > 1) hopper::cluster_sync();
  const FewRowsCursor<Shape> cursor(args);
  if (threadIdx.x < Shape::kConsumers) {
    consume(shared, cursor);
  } else if (producer) {
    produce(shared, cursor, x);
  }
  if constexpr (Shape::kCluster > 1) {
    // Another CTA may still send boxes here or arrive at these barriers.
    __syncwarp();
    hopper::cluster_sync();
  }
}

}  // namespace ashlar::tile_matmul_cuda

#endif  // ASHLAR_KERNELS_TILE_MATMUL_FEW_ROWS_CUH_
