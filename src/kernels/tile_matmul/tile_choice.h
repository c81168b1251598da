// Which kernel of tile_matmul a step takes: a function of the weight's shape and the rows alone.
#ifndef ASHLAR_KERNELS_TILE_MATMUL_TILE_CHOICE_H_
#define ASHLAR_KERNELS_TILE_MATMUL_TILE_CHOICE_H_

#include <cstdint>

#include "kernels/tile_matmul/tile_layout.h"

namespace ashlar {

enum class TileKernel : uint8_t {
  kFewRows8,
  kFewRows16,
  kSplitRows32,  // segments on the CTAs of a cluster
  kSplitRows64,
  kSplitRows96,
  kSplitRows128,
  kPairedTiles128,  // the same, two tiles a CTA share the rows: passes of 128 rows
  kManyRows192,     // segments in turn in one CTA, two sets of accumulators
  kManyRows256,     // one segment
};
constexpr int kTileKernelCount = 9;

// From here on the many-row kernels have enough tiles to fill the GPU.
constexpr int64_t kManyRowsFrom = 769;

constexpr TileKernel choose_tile_kernel(const TileShape& shape, int64_t rows) {
  if (rows <= 8) return TileKernel::kFewRows8;
  if (rows <= 16) return TileKernel::kFewRows16;
  if (rows <= 32) return TileKernel::kSplitRows32;
  if (rows <= 64) return TileKernel::kSplitRows64;
  if (rows <= 96) return TileKernel::kSplitRows96;
  if (rows <= 128) return TileKernel::kSplitRows128;
  if (rows < kManyRowsFrom) return TileKernel::kPairedTiles128;
  return segment_count(shape) == 1 ? TileKernel::kManyRows256 : TileKernel::kManyRows192;
}

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_TILE_MATMUL_TILE_CHOICE_H_
