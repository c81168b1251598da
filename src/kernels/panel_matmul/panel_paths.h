// The instruction sets that panel_matmul has code for: how each lays out the integers of x, and its
// inner product of one panel with some rows. All give the same bits. Internal to this folder.
#ifndef ASHLAR_KERNELS_PANEL_MATMUL_PANEL_PATHS_H_
#define ASHLAR_KERNELS_PANEL_MATMUL_PANEL_PATHS_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/panels/panel_layout.h"

namespace ashlar {

constexpr float kInputLevels = 32512.0f;     // 127 * 256
constexpr float kSmallestInput = 0x1p-100f;  // a block whose largest magnitude is below is zero
constexpr int64_t kInputBlockBytes = 64;     // of the integers of one block of a row
constexpr int64_t kPanelTileRows = 48;       // rows that multiply() takes at most

// Beside the integers of one block of a row.
struct InputScale {
  float scale;      // s
  float sum;        // f32(Q) * s over the block
  float halves[2];  // the same over each half
};

// s and 1/s of a block whose largest magnitude has these bits.
struct BlockScale {
  float scale;
  float inverse;
};
// Always inlined, as it is called from files for different instruction sets.
[[gnu::always_inline]] inline BlockScale block_scale(int32_t largest_bits) {
  float largest = 0.0f;
  __builtin_memcpy(&largest, &largest_bits, sizeof(largest));
  if (largest_bits >= 0x7f800000) return {__builtin_nanf(""), 0.0f};
  if (largest < kSmallestInput) return {0.0f, 0.0f};
  return {largest / kInputLevels, kInputLevels / largest};
}

struct PanelTile {
  PanelLayout layout;
  const std::byte* codes;    // of the panel, [K/32] cells
  const std::byte* affine;   // its scales, [K/32]
  const std::byte* factors;  // its factors of nested scales, [K/256]
  int64_t cells;             // K/32
  const std::byte* inputs;   // integers of the first row, [rows K/32 kInputBlockBytes]
  const InputScale* scales;  // [rows K/32]
  int64_t rows;              // 1 to kPanelTileRows
  float* sums;               // [rows 16], 64-byte aligned, written
};

struct PanelPath {
  const char* name;
  bool (*usable)();  // on this machine
  // One row of x, K inputs, into integers as this path wants them. Values beside the scale of a
  // block with NaN or infinity are zero.
  void (*quantize)(const float* x, int64_t inputs, std::byte* integers, InputScale* scales);
  void (*multiply)(const PanelTile& tile);
};

extern const PanelPath panel_path_avx2;
extern const PanelPath panel_path_vnni;
extern const PanelPath panel_path_amx;

// All paths, fastest first, and the first that is usable.
std::span<const PanelPath* const> panel_paths();
const PanelPath& panel_path();

// For tests: makes panel_path() the given one until it is called with nullptr.
void force_panel_path(const PanelPath* path);

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_PANEL_MATMUL_PANEL_PATHS_H_
