// The cells of tile_matmul's operations that builds with CUDA have; null elsewhere.
#ifndef ASHLAR_KERNELS_TILE_MATMUL_TILE_CELLS_H_
#define ASHLAR_KERNELS_TILE_MATMUL_TILE_CELLS_H_

#include "kernels/tile_matmul/tile_matmul.h"

namespace ashlar {

[[gnu::weak]] void tile_matmul_cuda_cell(Stream& stream, const TileMatmulArgs& args);
[[gnu::weak]] void tile_pack_cuda_cell(Stream& stream, const TilePackArgs& args);
[[gnu::weak]] void tile_clear_cuda_cell(Stream& stream, const TileClearArgs& args);

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_TILE_MATMUL_TILE_CELLS_H_
