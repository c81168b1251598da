// The many-row kernel of tile_matmul: the tensor cores are the limit.
//
// A cluster of two CTAs makes 256 outputs for R rows; each CTA 128 outputs, each of its two
// consumer warpgroups one tile of 64 outputs by R rows:
//
//                      R rows of x, in halves: CTA c loads half c and sends it to both
//   CTA 0  tile 0, 1   [ warpgroup 0 ; warpgroup 1 ]
//   CTA 1  tile 2, 3   [ warpgroup 0 ; warpgroup 1 ]
//
// A stage is one block of 64 inputs: 16 KB of weights and R * 128 bytes of rows. Segments are made
// one after the other: a chain from zero into one set of accumulators, added to a second set at its
// end (kTwoSets; one segment needs none, and R may be larger). bf16 leaves by the copy engine, f32
// from registers. CTAs are persistent; the order of items keeps a few row tiles and a few weight
// tiles in L2.
//
// Loads of a CTA from L2 for a block: R = 128 24 KB in 512 cycles of the tensor cores, R = 256 32
// KB in 1,024. Measured on an H200 (2026-12-01, bf16, TFLOP/s; cuBLAS of the same day in brackets):
//   outputs x inputs     2,048 rows    8,192 rows
//   6144 x 4096          701 (785)     701 (807)     R = 128, four segments
//   4096 x 4096          686 (786)     697 (802)
//   4096 x 12288         733 (805)     724 (765)
//   24576 x 4096, gated  750 (797)     740 (728)     R = 256, one segment
// Tried and lost: R = 192 with two sets (629, 547, 657 at 2,048 rows: 52 registers spill at each
// end of a segment); a release or acquire of the whole cluster at the stages' barriers (379 instead
// of 601); bf16 stored from registers (601 instead of 633); blocks of weights in runs of 2 KB,
// which the copy engine takes at about 120 cycles each (551 instead of 629).
#ifndef ASHLAR_KERNELS_TILE_MATMUL_MANY_ROWS_CUH_
#define ASHLAR_KERNELS_TILE_MATMUL_MANY_ROWS_CUH_

#include "kernels/hopper/copy.cuh"
#include "kernels/hopper/dependent_launch.cuh"
#include "kernels/hopper/wgmma.cuh"
#include "kernels/tile_matmul/tile_args.cuh"

namespace ashlar::tile_matmul_cuda {

template <int r, bool two_sets, int stages>
struct ManyRowsShape {
  static constexpr int R = r;
  static constexpr bool kTwoSets = two_sets;
  static constexpr int kStages = stages;
  static constexpr int kConsumers = 256;
  static constexpr int kThreads = kConsumers + 128;  // registers move by whole warpgroups
  static constexpr int kHalfBytes = r / 2 * 128;
  static constexpr int kStageBytes = 2 * 8192 + r * 128;
  static constexpr int kBoxRows = r > 128 ? r / 2 : r;  // of y that leave at once; gated: all
  static constexpr int kBoxBytes = kBoxRows * 128;
  static constexpr int kSharedBytes = stages * kStageBytes + 2 * kBoxBytes + 256;
};

template <class Shape>
struct ManyRowsShared {
  alignas(1024) std::byte stages[Shape::kStages][Shape::kStageBytes];  // [tile 0, tile 1, rows]
  std::byte boxes[2][Shape::kBoxBytes];                                // of y, one a warpgroup
  hopper::Barrier full[Shape::kStages];
  hopper::Barrier empty[Shape::kStages];
};

constexpr int kClusterCtas = 2;
constexpr int kGroupRowTiles = 8;  // row tiles that stay in L2 while weights pass by

// Items in order: for each group of row tiles, for each run of four weight tiles, the row tiles.
struct ManyRowsItem {
  int tile;  // first of this CTA's two
  int row;
};

template <int R>
__device__ ManyRowsItem many_rows_item(const TileArgs& args, int item) {
  const int runs = (args.tiles + 3) / 4;
  const int row_tiles = (args.rows + R - 1) / R;
  const int group = item / (runs * kGroupRowTiles);
  const int in_group = item % (runs * kGroupRowTiles);
  const int width = min(kGroupRowTiles, row_tiles - group * kGroupRowTiles);
  const int run = in_group / width;
  const int row_tile = group * kGroupRowTiles + in_group % width;
  return {run * 4 + static_cast<int>(blockIdx.x % kClusterCtas) * 2, row_tile * R};
}

template <int R>
__device__ int many_rows_items(const TileArgs& args) {
  return (args.tiles + 3) / 4 * ((args.rows + R - 1) / R);
}

template <class Shape>
__device__ void produce_many(ManyRowsShared<Shape>& shared, const TileArgs& args,
                             const CUtensorMap& x) {
  const int rank = static_cast<int>(blockIdx.x % kClusterCtas);
  const int items = many_rows_items<Shape::R>(args);
  const int64_t tile_bytes = static_cast<int64_t>(args.steps) * args.segments * 2 * kBlockBytes;
  int stage = 0;
  uint32_t parity = 1;
  wait_for_predecessor();
  for (int i = blockIdx.x / kClusterCtas; i < items; i += gridDim.x / kClusterCtas) {
    const ManyRowsItem item = many_rows_item<Shape::R>(args, i);
    // The last run may lack the second CTA's tiles; it still sends and receives rows.
    const std::byte* const tile = args.step_of(min(item.tile, args.tiles - 2), 0);
    const int row = item.row + rank * (Shape::R / 2);
    int column = 0;
    for (int segment = 0; segment < args.segments; ++segment) {
      const int count = 2 * args.pairs_of(segment);
      for (int block = 0; block < count; ++block) {
        hopper::barrier_wait(&shared.empty[stage], parity);
        hopper::Barrier* full = &shared.full[stage];
        std::byte* to = shared.stages[stage];
        hopper::barrier_expect(full, Shape::kStageBytes);
        const std::byte* from =
            tile + ((block / 2 * args.segments + segment) * 2 + block % 2) * kBlockBytes;
        hopper::copy_bytes(to, from, kBlockBytes, full, hopper::kEvictLast);
        hopper::copy_bytes(to + kBlockBytes, from + tile_bytes, kBlockBytes, full,
                           hopper::kEvictLast);
        hopper::copy_box_multicast(to + 2 * 8192 + rank * Shape::kHalfBytes, &x, column, row, full,
                                   3, hopper::kEvictLast);
        column += static_cast<int>(kBlockInputs);
        if (++stage == Shape::kStages) {
          stage = 0;
          parity ^= 1;
        }
      }
    }
  }
}

// Accumulators: rows 8 j + 2 (t % 4) (+ 1) of the item, outputs t / 4 (+ 8) of the warp's sixteen:
// see wgmma.cuh. From registers straight into y, loads of the residual in large batches.
template <int R, Finish finish>
__device__ __forceinline__ void finish_direct(const TileArgs& args, const ManyRowsItem& item,
                                              int group, const float (&d)[R / 2]) {
  constexpr int kBatch = R > 128 ? 6 : 12;  // of eight rows: what registers have room for
  const int thread = threadIdx.x % 128;
  const int64_t n =
      static_cast<int64_t>(item.tile + group) * 64 + thread / 32 * 16 + thread % 32 / 4;
  const int64_t first = item.row + 2 * (thread % 4);
  float* y = static_cast<float*>(args.y);
  const auto row_of = [&](int i) { return first + i / 4 * 8 + i % 2; };
  const auto column_of = [&](int i) { return n + i % 4 / 2 * 8; };
#pragma unroll
  for (int begin = 0; begin < R / 2; begin += 4 * kBatch) {
    float old[4 * kBatch];
#pragma unroll
    for (int i = 0; i < 4 * kBatch; ++i) {
      if (begin + i >= R / 2) continue;
      const int64_t m = row_of(begin + i), c = column_of(begin + i);
      if (finish == Finish::kAddF32 && m < args.rows && c < args.columns) {
        old[i] = y[m * args.y_stride + c];
      }
    }
#pragma unroll
    for (int i = 0; i < 4 * kBatch; ++i) {
      if (begin + i >= R / 2) continue;
      const int64_t m = row_of(begin + i), c = column_of(begin + i);
      if (m >= args.rows || c >= args.columns) continue;
      if constexpr (finish == Finish::kAddF32) {
        y[m * args.y_stride + c] = __fadd_rn(old[i], with_bias(args, d[begin + i], c));
      } else {
        finish_plain<finish>(args, m, c, d[begin + i]);
      }
    }
  }
}

__device__ __forceinline__ uint32_t packed(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// Four 8 x 8 matrices, transposed: lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void store_transposed(uint32_t address, const uint32_t (&v)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
      "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
      : "memory");
}

// bf16 by way of shared memory: boxes of [rows][64] or, gated, [rows][32], swizzled as their tensor
// map says, which the copy engine writes while the next item is multiplied.
template <class Shape, Finish finish>
__device__ __forceinline__ void finish_boxed(const TileArgs& args, const ManyRowsItem& item,
                                             int group, std::byte* box, const CUtensorMap& y,
                                             const float (&d)[Shape::R / 2]) {
  constexpr bool kGated = is_gated(finish);
  constexpr int kBoxRows = kGated ? Shape::R : Shape::kBoxRows;
  constexpr int kRows = kGated ? 32 : 16;  // of one store_transposed
  const int thread = threadIdx.x % 128;
  const int warp = thread / 32, lane = thread % 32;
  const int tile = item.tile + group;
  const int64_t n =
      static_cast<int64_t>(tile) * (kGated ? 32 : 64) + warp * (kGated ? 8 : 16) + lane / 4;
  const uint32_t base = hopper::shared_address(box);
#pragma unroll
  for (int begin = 0; begin < Shape::R; begin += kBoxRows) {
    if (thread == 0) hopper::stores_read();
    hopper::named_sync(1 + group, 128);
#pragma unroll
    for (int row = 0; row < kBoxRows; row += kRows) {
      const int i = (begin + row) / 2;  // of the first accumulator
      uint32_t v[4];
      uint32_t address;
      if constexpr (kGated) {
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          v[q] = packed(gated_value<finish>(args, n, d[i + 4 * q], d[i + 4 * q + 2]),
                        gated_value<finish>(args, n, d[i + 4 * q + 1], d[i + 4 * q + 3]));
        }
        const int m = row + lane;
        address = base + m * 64 + ((warp ^ ((m >> 1) & 3)) << 4);
      } else {
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          const int64_t c = n + q % 2 * 8;
          v[q] = packed(with_bias(args, d[i + 2 * q], c), with_bias(args, d[i + 2 * q + 1], c));
        }
        const int m = row + lane / 16 * 8 + lane % 8;
        address = base + m * 128 + (((warp * 2 + lane / 8 % 2) ^ (m & 7)) << 4);
      }
      store_transposed(address, v);
    }
    hopper::store_fence();
    hopper::named_sync(1 + group, 128);
    if (thread == 0) {
      hopper::store_box(&y, tile * (kGated ? 32 : 64), item.row + begin, box);
    }
  }
}

template <class Shape, int total_count>
__device__ __forceinline__ auto& sums_of(float (&d)[Shape::R / 2], float (&total)[total_count]) {
  if constexpr (Shape::kTwoSets) {
    return total;
  } else {
    return d;
  }
}

template <class Shape, Finish finish>
__device__ __forceinline__ void consume_many(ManyRowsShared<Shape>& shared, const TileArgs& args,
                                             const CUtensorMap& y) {
  constexpr int kSums = Shape::R / 2;
  const int group = threadIdx.x / 128;
  const bool elected = threadIdx.x % 32 < kClusterCtas;  // lane c frees the stage for CTA c
  const int items = many_rows_items<Shape::R>(args);
  int stage = 0;
  uint32_t parity = 0;
  float d[kSums];
  float total[Shape::kTwoSets ? kSums : 1];
  wait_for_predecessor();
  for (int i = blockIdx.x / kClusterCtas; i < items; i += gridDim.x / kClusterCtas) {
    for (int segment = 0; segment < args.segments; ++segment) {
      const int count = 2 * args.pairs_of(segment);
      int previous = -1;
      hopper::hold_accumulators(d);
      for (int block = 0; block < count; ++block) {
        hopper::barrier_wait(&shared.full[stage], parity);
        const uint64_t a = hopper::wgmma_operand(shared.stages[stage] + group * 8192);
        const uint64_t b = hopper::wgmma_operand(shared.stages[stage] + 2 * 8192);
        hopper::wgmma_fence();
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          hopper::Wgmma<Shape::R>::run(d, a + k * hopper::kOperandStep,
                                       b + k * hopper::kOperandStep, block > 0 || k > 0);
        }
        hopper::wgmma_commit();
        hopper::wgmma_wait<1>();
        if (previous >= 0 && elected) {
          hopper::barrier_arrive_at(&shared.empty[previous], threadIdx.x % 32);
        }
        previous = stage;
        if (++stage == Shape::kStages) {
          stage = 0;
          parity ^= 1;
        }
      }
      hopper::wgmma_wait<0>();
      hopper::hold_accumulators(d);
      if (elected) hopper::barrier_arrive_at(&shared.empty[previous], threadIdx.x % 32);
      if constexpr (Shape::kTwoSets) {
#pragma unroll
        for (int e = 0; e < kSums; ++e) total[e] = segment == 0 ? d[e] : __fadd_rn(total[e], d[e]);
      }
    }
    const ManyRowsItem item = many_rows_item<Shape::R>(args, i);
    if (item.tile >= args.tiles) continue;
    float(&sums)[kSums] = sums_of<Shape>(d, total);
    if constexpr (finish == Finish::kStoreF32 || finish == Finish::kAddF32) {
      finish_direct<Shape::R, finish>(args, item, group, sums);
    } else {
      finish_boxed<Shape, finish>(args, item, group, shared.boxes[group], y, sums);
    }
  }
  if (threadIdx.x % 128 == 0) hopper::stores_done();
}

template <class Shape, Finish finish>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    many_rows_kernel(const TileArgs args, const __grid_constant__ CUtensorMap x,
                     const __grid_constant__ CUtensorMap y) {
  extern __shared__ __align__(1024) std::byte memory[];
  auto& shared = *reinterpret_cast<ManyRowsShared<Shape>*>(memory);
  if (threadIdx.x == 0) {
    hopper::prefetch_map(&x);
    for (int i = 0; i < Shape::kStages; ++i) {
      hopper::barrier_init(&shared.full[i], 1);
      hopper::barrier_init(&shared.empty[i], kClusterCtas * Shape::kConsumers / 32);
    }
    hopper::barrier_init_fence();
  }
  let_successor_start();
  __syncthreads();
  hopper::cluster_sync();
  if (threadIdx.x < Shape::kConsumers) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    consume_many<Shape, finish>(shared, args, y);
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == Shape::kConsumers) produce_many(shared, args, x);
  }
  // The other CTA may still send rows here or arrive at these barriers.
  __syncwarp();
  hopper::cluster_sync();
}

}  // namespace ashlar::tile_matmul_cuda

#endif  // ASHLAR_KERNELS_TILE_MATMUL_MANY_ROWS_CUH_
