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
// end (kTwoSets; one segment needs none, and R may be larger). The epilogue works from registers.
// CTAs are persistent; the order of items keeps a few row tiles and a few weight tiles in L2.
//
// Loads of a CTA from L2 an instruction cycle: R = 192 28 KB in 768 cycles, R = 256 32 KB in 1,024.
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
  static constexpr int kSharedBytes = stages * kStageBytes + 256;
};

template <class Shape>
struct ManyRowsShared {
  alignas(1024) std::byte stages[Shape::kStages][Shape::kStageBytes];  // [tile 0, tile 1, rows]
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
  int stage = 0;
  uint32_t parity = 1;
  wait_for_predecessor();
  for (int i = blockIdx.x / kClusterCtas; i < items; i += gridDim.x / kClusterCtas) {
    const ManyRowsItem item = many_rows_item<Shape::R>(args, i);
    // The last run may lack the second CTA's tiles; it still sends and receives rows.
    const int tile = min(item.tile, args.tiles - 2);
    for (int block = 0; block < args.blocks; ++block) {
      hopper::barrier_wait_cluster(&shared.empty[stage], parity);
      hopper::Barrier* full = &shared.full[stage];
      std::byte* to = shared.stages[stage];
      hopper::barrier_expect(full, Shape::kStageBytes);
      hopper::copy_bytes(to, args.block(tile, block), 8192, full, hopper::kEvictLast);
      hopper::copy_bytes(to + 8192, args.block(tile + 1, block), 8192, full, hopper::kEvictLast);
      hopper::copy_box_multicast(to + 2 * 8192 + rank * Shape::kHalfBytes, &x,
                                 block * static_cast<int>(kBlockInputs),
                                 item.row + rank * (Shape::R / 2), full, 3, hopper::kEvictLast);
      if (++stage == Shape::kStages) {
        stage = 0;
        parity ^= 1;
      }
    }
  }
}

// Rows 8 j + 2 (t % 4) (+ 1) of the item, outputs t / 4 (+ 8) of the warp's sixteen: see wgmma.cuh.
template <int R, Finish finish>
__device__ __forceinline__ void finish_many(const TileArgs& args, const ManyRowsItem& item,
                                            int group, const float (&d)[R / 2]) {
  const int thread = threadIdx.x % 128;
  const int tile = item.tile + group;
  constexpr bool gated = is_gated(finish);
  constexpr int width = gated ? 32 : 64;
  const int64_t n =
      static_cast<int64_t>(tile) * width + thread / 32 * (width / 4) + thread % 32 / 4;
  const int first = item.row + 2 * (thread % 4);
#pragma unroll
  for (int j = 0; j < R / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int64_t m = first + 8 * j + i;
      if constexpr (gated) {
        if (m < args.rows && n < args.columns) {
          finish_gated<finish>(args, m, n, d[4 * j + i], d[4 * j + 2 + i]);
        }
      } else {
        if (m < args.rows && n < args.columns) finish_plain<finish>(args, m, n, d[4 * j + i]);
        if (m < args.rows && n + 8 < args.columns) {
          finish_plain<finish>(args, m, n + 8, d[4 * j + 2 + i]);
        }
      }
    }
  }
}

template <class Shape, Finish finish>
__device__ __forceinline__ void consume_many(ManyRowsShared<Shape>& shared, const TileArgs& args) {
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
      const int count = static_cast<int>(segment_begin(args.blocks, args.segments, segment + 1) -
                                         segment_begin(args.blocks, args.segments, segment));
      int previous = -1;
      hopper::hold_accumulators(d);
      for (int block = 0; block < count; ++block) {
        hopper::barrier_wait_cluster(&shared.full[stage], parity);
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
          hopper::barrier_arrive_cluster(&shared.empty[previous], threadIdx.x % 32);
        }
        previous = stage;
        if (++stage == Shape::kStages) {
          stage = 0;
          parity ^= 1;
        }
      }
      hopper::wgmma_wait<0>();
      hopper::hold_accumulators(d);
      if (elected) hopper::barrier_arrive_cluster(&shared.empty[previous], threadIdx.x % 32);
      if constexpr (Shape::kTwoSets) {
#pragma unroll
        for (int e = 0; e < kSums; ++e) total[e] = segment == 0 ? d[e] : __fadd_rn(total[e], d[e]);
      }
    }
    const ManyRowsItem item = many_rows_item<Shape::R>(args, i);
    if (item.tile >= args.tiles) continue;
    if constexpr (Shape::kTwoSets) {
      finish_many<Shape::R, finish>(args, item, group, total);
    } else {
      finish_many<Shape::R, finish>(args, item, group, d);
    }
  }
}

template <class Shape, Finish finish>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    many_rows_kernel(const TileArgs args, const __grid_constant__ CUtensorMap x) {
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
    consume_many<Shape, finish>(shared, args);
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
