// tile_matmul, tile_pack and tile_clear on Hopper: which kernel runs, and with what grid. What the
// kernels reach is in the heads of split_rows.cuh and many_rows.cuh.
#include <algorithm>
#include <cstddef>

#include "device/launch_cuda.h"
#include "kernels/hopper/tensor_map_cuda.h"
#include "kernels/tile_matmul/many_rows.cuh"
#include "kernels/tile_matmul/split_rows.cuh"
#include "kernels/tile_matmul/tile_cells.h"
#include "kernels/tile_matmul/tile_choice.h"

namespace ashlar {

namespace {

using namespace tile_matmul_cuda;

Finish finish_of(const TileMatmulArgs& args) {
  switch (args.epilogue.gated) {
    case GatedActivation::kSilu:
      return Finish::kGatedSilu;
    case GatedActivation::kGeluTanh:
      return Finish::kGatedGeluTanh;
    case GatedActivation::kNone:
      break;
  }
  if (args.epilogue.add_to_output) return Finish::kAddF32;
  return args.y.dtype() == DType::kF32 ? Finish::kStoreF32 : Finish::kStoreBf16;
}

TileArgs tile_args(const TileMatmulArgs& args) {
  const TileShape& shape = args.weight.shape;
  const Epilogue& epilogue = args.epilogue;
  TileArgs out = {};
  out.weight = static_cast<const std::byte*>(args.weight.data.data());
  out.y = args.y.data();
  out.bias = epilogue.bias.empty() ? nullptr : epilogue.bias.as<float>();
  out.y_stride = args.y.row_stride();
  out.rows = static_cast<int32_t>(args.x.dim(0));
  out.columns = static_cast<int32_t>(args.y.dim(1));
  out.outputs = static_cast<int32_t>(shape.outputs);
  out.computed = epilogue.decodable > 0 ? static_cast<int32_t>(epilogue.decodable) : out.columns;
  out.tiles = static_cast<int32_t>(shape.tiles());
  out.blocks = static_cast<int32_t>(shape.blocks());
  out.segments = static_cast<int32_t>(segment_count(shape));
  out.steps = static_cast<int32_t>(segment_steps(shape.blocks(), out.segments));
  out.whole = out.blocks / 2 / out.segments;
  out.longer = out.blocks / 2 % out.segments;
  out.sums = args.scratch.empty() ? nullptr : static_cast<float*>(args.scratch.data());
  out.finish = finish_of(args);
  return out;
}

LaunchShape launch_shape(int clusters, int cluster, int threads, int shared_bytes) {
  return {.grid = dim3(static_cast<unsigned>(clusters * cluster)),
          .block = dim3(static_cast<unsigned>(threads)),
          .shared_bytes = static_cast<size_t>(shared_bytes),
          .cluster = cluster};
}

// Two or three CTAs a multiprocessor, so that all are in use: 256 units on places for 396 would
// crowd on some.
bool three_a_processor(Stream& stream, const TileArgs& args) {
  return args.tiles * args.segments > cuda_traits(stream).multiprocessors * 2;
}

template <int groups, int n, int blocks, int stages, int ctas>
void split_rows(Stream& stream, const TileArgs& args, const TensorView& x) {
  using Kernel = SplitRowsShape<groups, n, blocks, stages, ctas>;
  static_assert(offsetof(SplitRowsShared<Kernel>, last) + 4 <= Kernel::kSharedBytes);
  static_assert(ctas * (Kernel::kSharedBytes + 1024) <= 228 * 1024);
  CHECK(args.rows <= n);  // tile_matmul_scratch_bytes() counts one pass
  const int places = args.tiles / groups;
  CHECK(args.segments == 1 || places <= kMaxArrivals);
  const int ctas_at_once = cuda_traits(stream).multiprocessors * ctas;
  launch(stream, "tile_matmul", split_rows_kernel<Kernel>,
         launch_shape(std::min(places * args.segments, ctas_at_once), 1, Kernel::kThreads,
                      Kernel::kSharedBytes),
         args, hopper::box_map(stream, "tile_matmul", x, n));
}

template <class Kernel>
auto many_rows_of(Finish finish) {
  switch (finish) {
    case Finish::kStoreF32:
      return many_rows_kernel<Kernel, Finish::kStoreF32>;
    case Finish::kAddF32:
      return many_rows_kernel<Kernel, Finish::kAddF32>;
    case Finish::kGatedSilu:
      return many_rows_kernel<Kernel, Finish::kGatedSilu>;
    case Finish::kGatedGeluTanh:
      return many_rows_kernel<Kernel, Finish::kGatedGeluTanh>;
    case Finish::kStoreBf16:
      break;
  }
  return many_rows_kernel<Kernel, Finish::kStoreBf16>;
}

template <int r, bool two_sets, int stages>
void many_rows(Stream& stream, const TileArgs& args, const TensorView& x, const TensorView& y) {
  using Kernel = ManyRowsShape<r, two_sets, stages>;
  static_assert(offsetof(ManyRowsShared<Kernel>, empty) + stages * sizeof(Barrier) <=
                Kernel::kSharedBytes);
  const int items = (args.tiles + 3) / 4 * ((args.rows + r - 1) / r);
  const int clusters = std::min(items, cuda_traits(stream).multiprocessors / kClusterCtas);
  const bool f32 = args.finish == Finish::kStoreF32 || args.finish == Finish::kAddF32;
  const bool gated = is_gated(args.finish);
  launch(stream, "tile_matmul", many_rows_of<Kernel>(args.finish),
         launch_shape(clusters, kClusterCtas, Kernel::kThreads, Kernel::kSharedBytes), args,
         hopper::box_map(stream, "tile_matmul", x, r / 2),
         f32 ? CUtensorMap{}
             : hopper::box_map(stream, "tile_matmul", y, gated ? r : Kernel::kBoxRows,
                               gated ? 32 : 64));
}

// Eight inputs of one row a thread: a chunk of 16 bytes of the layout. Must not let its successor
// start: tile_matmul reads weights before it waits for a predecessor. Nor must clear_kernel.
template <class T>
__global__ void pack_kernel(const T* rows, int64_t row_stride, int64_t count, int64_t first,
                            TileShape shape, uint4* weight) {
  wait_for_predecessor();
  const int64_t chunks = shape.inputs / 8;
  const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i >= count * chunks) return;
  const T* from = rows + i / chunks * row_stride + i % chunks * 8;
  alignas(16) __nv_bfloat16 values[8];
  for (int k = 0; k < 8; ++k) {
    if constexpr (sizeof(T) == 4) {
      values[k] = __float2bfloat16_rn(from[k]);
    } else {
      values[k] = from[k];
    }
  }
  const int64_t row = shape.row_of(first + i / chunks);
  const int64_t chunk = i % chunks;
  const int64_t segments = segment_count(shape);
  const int64_t block = row / kTileOutputs * tile_blocks(shape.blocks(), segments) +
                        block_place(shape.blocks(), segments, chunk / 8);
  weight[block * (kBlockBytes / 16) + row % kTileOutputs * 8 + ((chunk % 8) ^ (row % 8))] =
      *reinterpret_cast<const uint4*>(values);
}

__global__ void clear_kernel(uint4* weight, int64_t count) {
  wait_for_predecessor();
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += step) {
    weight[i] = uint4{};
  }
}

constexpr int kPackThreads = 256;

template <class T>
void pack(Stream& stream, const TilePackArgs& args) {
  const int64_t chunks = args.rows.dim(0) * args.weight.shape.inputs / 8;
  launch(stream, "tile_pack", pack_kernel<T>,
         {.grid = dim3(static_cast<unsigned>((chunks + kPackThreads - 1) / kPackThreads)),
          .block = dim3(kPackThreads)},
         static_cast<const T*>(args.rows.data()), args.rows.row_stride(), args.rows.dim(0),
         args.first, args.weight.shape, static_cast<uint4*>(args.weight.data.data()));
}

}  // namespace

void tile_matmul_cuda_cell(Stream& stream, const TileMatmulArgs& args) {
  if (args.x.dim(0) == 0) return;
  const TileArgs tile = tile_args(args);
  const bool three = three_a_processor(stream, tile);
  switch (choose_tile_kernel(args.weight.shape, tile.rows)) {
    case TileKernel::kSplitRows8:
      if (three) return split_rows<1, 8, 2, 4, 3>(stream, tile, args.x);
      return split_rows<1, 8, 2, 6, 2>(stream, tile, args.x);
    case TileKernel::kSplitRows16:
      if (three) return split_rows<1, 16, 2, 3, 3>(stream, tile, args.x);
      return split_rows<1, 16, 2, 5, 2>(stream, tile, args.x);
    case TileKernel::kSplitRows32:
      if (three) return split_rows<1, 32, 1, 5, 3>(stream, tile, args.x);
      return split_rows<1, 32, 2, 4, 2>(stream, tile, args.x);
    case TileKernel::kSplitRows64:
      if (three) return split_rows<1, 64, 1, 3, 3>(stream, tile, args.x);
      return split_rows<1, 64, 2, 3, 2>(stream, tile, args.x);
    case TileKernel::kPaired96:
      return split_rows<2, 96, 1, 6, 1>(stream, tile, args.x);
    case TileKernel::kPaired128:
      return split_rows<2, 128, 1, 5, 1>(stream, tile, args.x);
    case TileKernel::kManyRows128:
      if (tile.segments == 1) return many_rows<128, false, 5>(stream, tile, args.x, args.y);
      return many_rows<128, true, 5>(stream, tile, args.x, args.y);
    case TileKernel::kManyRows256:
      return many_rows<256, false, 4>(stream, tile, args.x, args.y);
  }
}

void tile_pack_cuda_cell(Stream& stream, const TilePackArgs& args) {
  if (args.rows.dtype() == DType::kF32) {
    pack<float>(stream, args);
  } else {
    pack<__nv_bfloat16>(stream, args);
  }
}

void tile_clear_cuda_cell(Stream& stream, const TileClearArgs& args) {
  const int64_t count = args.weight.shape.bf16_bytes() / 16;
  launch(stream, "tile_clear", clear_kernel,
         {.grid = dim3(static_cast<unsigned>(std::clamp<int64_t>(count / 1024, 1, 4096))),
          .block = dim3(256)},
         static_cast<uint4*>(args.weight.data.data()), count);
}

}  // namespace ashlar
