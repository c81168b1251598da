// Which kernel of tile_matmul a step takes: a function of the weight's shape and the rows alone.
#ifndef ASHLAR_KERNELS_TILE_MATMUL_TILE_CHOICE_H_
#define ASHLAR_KERNELS_TILE_MATMUL_TILE_CHOICE_H_

#include <cstdint>

#include "kernels/tile_matmul/tile_layout.h"

namespace ashlar {

enum class TileKernel : uint8_t {
  kSplitRows8,  // segments on several CTAs
  kSplitRows16,
  kSplitRows32,
  kSplitRows64,
  kPaired96,  // the same, two tiles a CTA share the rows
  kPaired128,
  kManyRows128,  // segments in turn in one CTA
  kManyRows256,  // of one segment
};
constexpr int kTileKernelCount = 8;

// Rows of one pass.
constexpr int64_t pass_rows(TileKernel kernel) {
  constexpr int64_t kRows[kTileKernelCount] = {8, 16, 32, 64, 96, 128, 128, 256};
  return kRows[static_cast<int>(kernel)];
}

// Cycles of a many-row kernel for a block of 64 inputs, all rounds of the GPU's clusters together:
// those of its matrix instructions, or of its loads at what L2 gives each processor of all, 37
// bytes a cycle (measured).
constexpr int64_t many_rows_cycles(const TileShape& shape, int64_t rows, TileKernel kernel) {
  const int64_t pass = pass_rows(kernel);
  const int64_t clusters = (shape.tiles() + 3) / 4 * ((rows + pass - 1) / pass);
  const int64_t at_once = kSegmentProcessors / 2;
  const int64_t loads = (2 * 8192 + pass / 2 * 128) / 37;
  return (clusters + at_once - 1) / at_once * (4 * pass > loads ? 4 * pass : loads);
}

constexpr TileKernel choose_tile_kernel(const TileShape& shape, int64_t rows) {
  if (rows <= 8) return TileKernel::kSplitRows8;
  if (rows <= 16) return TileKernel::kSplitRows16;
  if (rows <= 32) return TileKernel::kSplitRows32;
  if (rows <= 64) return TileKernel::kSplitRows64;
  const int64_t segments = segment_count(shape);
  const bool one_round = shape.tiles() / 2 * segments <= kSegmentProcessors;
  if (rows <= 96 && (one_round || segments == 1)) return TileKernel::kPaired96;
  if (rows <= 128 && one_round) return TileKernel::kPaired128;
  if (segments > 1) return TileKernel::kManyRows128;
  const bool small = many_rows_cycles(shape, rows, TileKernel::kManyRows128) <
                     many_rows_cycles(shape, rows, TileKernel::kManyRows256);
  return small ? TileKernel::kManyRows128 : TileKernel::kManyRows256;
}

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_TILE_MATMUL_TILE_CHOICE_H_
