// PanelLayout: how the panels of one format lie in memory (panels.h says what a panel is). On its
// own, without anything from a library, for files that are compiled for single instruction sets.
#ifndef ASHLAR_KERNELS_PANELS_PANEL_LAYOUT_H_
#define ASHLAR_KERNELS_PANELS_PANEL_LAYOUT_H_

#include <cstdint>

#include "base/align.h"

namespace ashlar {

constexpr int64_t kPanelRows = 16;
constexpr int64_t kCellInputs = 32;
constexpr int64_t kNestedInputs = 256;  // share the factors of nested scales

// How scale and offset of a block are stored; zero is PanelLayout::zero.
enum class PanelScales : uint8_t {
  kPlain,   // a cell: d f16 [16]; scale d, offset -zero * d
  kMin,     // a cell: d f16 [16], m f16 [16]; scale d, offset m
  kNested,  // a cell: s i8 [2 halves of 16 k][16]; 256 k: d f16 [16]; scale d * s, offset -zero * d
            // * s
  kNestedMin,  // a cell: s u8 [16], t u8 [16]; 256 k: d f16 [16], e f16 [16]; scale d * s, offset
               // -(e * t)
};

struct PanelLayout {
  int bits;  // of a code: 4, 5, 6 or 8
  PanelScales scales;
  int zero = 0;  // the code that means zero, where offsets come from it

  constexpr bool nested() const { return scales >= PanelScales::kNested; }
  constexpr int64_t code_bytes() const { return 64 * bits; }  // of a cell
  constexpr int64_t scale_bytes() const { return scales == PanelScales::kMin ? 64 : 32; }
  constexpr int64_t factor_bytes() const {  // of 256 k
    return scales == PanelScales::kNestedMin ? 64 : scales == PanelScales::kNested ? 32 : 0;
  }
  // Of a panel of rows of K inputs, a multiple of 64 so that panels stay aligned to cache lines.
  constexpr int64_t panel_bytes(int64_t inputs) const {
    const int64_t cells = inputs / kCellInputs;
    return round_up(cells * (code_bytes() + scale_bytes()) +
                        (nested() ? inputs / kNestedInputs * factor_bytes() : 0),
                    64);
  }
};

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_PANELS_PANEL_LAYOUT_H_
