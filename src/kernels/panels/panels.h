// Panels: block-quantised weights re-laid at load for kernels that multiply integers.
//
// A panel is 16 rows of a matrix, all K. Every format that fits stores a weight as
// scale * code + offset, code an unsigned integer of 4, 5, 6 or 8 bits, scale and offset of a block
// of 32 or 16 consecutive k; nothing is rounded when a format is re-laid, so a panel holds the
// format's truth. A cell is 32 k of a panel. In memory a panel is:
//
//   codes   [K/32 cells]: for 4 bits 256 bytes of nibbles; each further bit, up to 6, adds a plane
//           of 64 bytes; 8 bits are 512 bytes
//   scales  [K/32 cells] of the sizes below, then, where scales are nested, [K/256] common factors
//
// Inside a cell a code vector v (0..7) is 64 bytes: byte 4 o + i is row o (0..15), k = 4 v + i,
// which is what VNNI and AMX multiply at once. Nibble byte j of 64-byte run z holds byte j of
// vector 2 z (low) and 2 z + 1 (high). Bit v of byte j of a plane belongs to byte j of vector v.
// Rows beyond the matrix have scale and offset zero. Little endian throughout.
#ifndef ASHLAR_KERNELS_PANELS_PANELS_H_
#define ASHLAR_KERNELS_PANELS_PANELS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "kernels/panels/panel_layout.h"

namespace ashlar {

// A matrix of one layout, or one part of a fused one.
struct PanelMatrix {
  PanelLayout layout;
  const std::byte* data = nullptr;  // [ceil(rows / 16) panels], 64-byte aligned
  int64_t rows = 0;
  int64_t inputs = 0;  // K: a multiple of 32, of 256 where scales are nested

  int64_t panels() const { return divide_up(rows, kPanelRows); }
  const std::byte* panel(int64_t index) const { return data + index * layout.panel_bytes(inputs); }
};

inline int64_t row_count(std::span<const PanelMatrix> parts) {
  int64_t rows = 0;
  for (const PanelMatrix& part : parts) rows += part.rows;
  return rows;
}

// One row taken apart, as a format hands it to pack_panel(). f16 values are their bits.
struct PanelRow {
  uint8_t* codes;      // [K]
  uint16_t* factors;   // d: [K/32], nested [K/256]
  uint16_t* factors2;  // m or e, where the layout has them, as many
  int8_t* scales;      // nested: s, [K/16] or with kNestedMin [K/32] (unsigned)
  uint8_t* scales2;    // kNestedMin: t, [K/32]
};

// How rows of a file become panels: the layout, and the taking apart of one row. The members of the
// PanelRow that the layout has point to enough room.
struct PanelSource {
  PanelLayout layout;
  void (*split)(const std::byte* row, int64_t inputs, const PanelRow& out);
};

// Writes a panel from up to 16 rows; rows.size() < 16 leaves the rest zero.
void pack_panel(const PanelLayout& layout, std::span<const PanelRow> rows, int64_t inputs,
                std::byte* panel);

// A cell decoded the plain way: the meaning of the layout.
struct PanelCell {
  uint8_t codes[8][64];  // by code vector
  float scale[2][16];    // by half of the cell and row; equal halves unless scales cover 16 k
  float offset[2][16];
};
void decode_cell(const PanelLayout& layout, const std::byte* panel, int64_t inputs, int64_t cell,
                 PanelCell& out);

// Row `row` of the matrix as f32 into out[K]: the product is exact, the sum with the offset rounds
// once, which gives the bits of the format's own formula.
void decode_panel_row(const PanelMatrix& matrix, int64_t row, float* out);

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_PANELS_PANELS_H_
