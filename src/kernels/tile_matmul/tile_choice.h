// Which kernel of tile_matmul a step takes: a function of the weight's shape and the rows alone.
#ifndef ASHLAR_KERNELS_TILE_MATMUL_TILE_CHOICE_H_
#define ASHLAR_KERNELS_TILE_MATMUL_TILE_CHOICE_H_

#include <cstdint>

#include "kernels/tile_matmul/tile_layout.h"

namespace ashlar {

enum class TileKernel : uint8_t {
  kFewRows8,  // segments in one CTA
  kFewRows16,
  kFewRows32,
  kSplitRows64,  // segments on several CTAs
  kPaired96,     // the same, two tiles a CTA share the rows
  kPaired128,
  kPairedPasses,  // in passes of 128 rows
  kManyRows192,   // segments in turn in one CTA, two sets of accumulators
  kManyRows256,   // one segment
};
constexpr int kTileKernelCount = 9;

// From here on the many-row kernels have enough tiles to fill the GPU.
constexpr int64_t kManyRowsFrom = 769;

constexpr TileKernel choose_tile_kernel(const TileShape& shape, int64_t rows) {
  if (rows <= 8) return TileKernel::kFewRows8;
  if (rows <= 16) return TileKernel::kFewRows16;
  if (rows <= 32) return TileKernel::kFewRows32;
  if (rows <= 64) return TileKernel::kSplitRows64;
  if (rows <= 96) return TileKernel::kPaired96;
  if (rows <= 128) return TileKernel::kPaired128;
  if (rows < kManyRowsFrom) return TileKernel::kPairedPasses;
  return segment_count(shape) == 1 ? TileKernel::kManyRows256 : TileKernel::kManyRows192;
}

// Rows of one pass of a kernel that splits segments over CTAs.
constexpr int64_t rows_of_pass(TileKernel kernel) {
  if (kernel == TileKernel::kSplitRows64) return 64;
  return kernel == TileKernel::kPaired96 ? 96 : 128;
}

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_TILE_MATMUL_TILE_CHOICE_H_
