// Packing and plain decoding of panels. Packing runs once a weight, at load, at about the speed of
// a copy; decoding here is for the reference and for rows that are looked up.
#include "kernels/panels/panels.h"

#include <algorithm>
#include <cstring>

#include "tensor/dtype.h"

namespace ashlar {

namespace {

float half_at(const std::byte* bytes, int64_t index) {
  F16 value;
  std::memcpy(&value, bytes + index * 2, sizeof(value));
  return to_float(value);
}

void pack_codes(int bits, std::span<const PanelRow> rows, int64_t k, uint8_t* out) {
  alignas(64) uint8_t vectors[8][64] = {};
  for (int v = 0; v < 8; ++v) {
    for (size_t o = 0; o < rows.size(); ++o) {
      std::memcpy(vectors[v] + 4 * o, rows[o].codes + k + 4 * v, 4);
    }
  }
  if (bits == 8) {
    std::memcpy(out, vectors, sizeof(vectors));
    return;
  }
  for (int z = 0; z < 4; ++z) {
    for (int j = 0; j < 64; ++j) {
      out[64 * z + j] = static_cast<uint8_t>((vectors[2 * z][j] & 15) | vectors[2 * z + 1][j] << 4);
    }
  }
  for (int bit = 4; bit < bits; ++bit) {
    uint8_t* plane = out + 256 + 64 * (bit - 4);
    std::memset(plane, 0, 64);
    for (int v = 0; v < 8; ++v) {
      for (int j = 0; j < 64; ++j) {
        plane[j] = static_cast<uint8_t>(plane[j] | (vectors[v][j] >> bit & 1) << v);
      }
    }
  }
}

// out[i * stride] = from(row i), the rest zero.
template <class T, class From>
void scatter(std::span<const PanelRow> rows, std::byte* out, const From& from) {
  T values[kPanelRows] = {};
  for (size_t o = 0; o < rows.size(); ++o) values[o] = static_cast<T>(from(rows[o]));
  std::memcpy(out, values, sizeof(values));
}

const std::byte* scales_of(const PanelLayout& layout, const std::byte* panel, int64_t inputs) {
  return panel + inputs / kCellInputs * layout.code_bytes();
}
const std::byte* factors_of(const PanelLayout& layout, const std::byte* panel, int64_t inputs) {
  return scales_of(layout, panel, inputs) + inputs / kCellInputs * layout.scale_bytes();
}

}  // namespace

void pack_panel(const PanelLayout& layout, std::span<const PanelRow> rows, int64_t inputs,
                std::byte* panel) {
  const int64_t cells = inputs / kCellInputs;
  for (int64_t cell = 0; cell < cells; ++cell) {
    pack_codes(layout.bits, rows, cell * kCellInputs,
               reinterpret_cast<uint8_t*>(panel) + cell * layout.code_bytes());
  }
  std::byte* scales = panel + cells * layout.code_bytes();
  for (int64_t cell = 0; cell < cells; ++cell, scales += layout.scale_bytes()) {
    switch (layout.scales) {
      case PanelScales::kPlain:
      case PanelScales::kMin:
        scatter<uint16_t>(rows, scales, [&](const PanelRow& r) { return r.factors[cell]; });
        if (layout.scales == PanelScales::kPlain) break;
        scatter<uint16_t>(rows, scales + 32, [&](const PanelRow& r) { return r.factors2[cell]; });
        break;
      case PanelScales::kNested:
        for (int half = 0; half < 2; ++half) {
          scatter<int8_t>(rows, scales + 16 * half,
                          [&](const PanelRow& r) { return r.scales[2 * cell + half]; });
        }
        break;
      case PanelScales::kNestedMin:
        scatter<int8_t>(rows, scales, [&](const PanelRow& r) { return r.scales[cell]; });
        scatter<uint8_t>(rows, scales + 16, [&](const PanelRow& r) { return r.scales2[cell]; });
        break;
    }
  }
  const int64_t runs = layout.nested() ? inputs / kNestedInputs : 0;
  for (int64_t run = 0; run < runs; ++run, scales += layout.factor_bytes()) {
    scatter<uint16_t>(rows, scales, [&](const PanelRow& r) { return r.factors[run]; });
    if (layout.scales != PanelScales::kNestedMin) continue;
    scatter<uint16_t>(rows, scales + 32, [&](const PanelRow& r) { return r.factors2[run]; });
  }
  std::byte* end = panel + layout.panel_bytes(inputs);
  std::fill(scales, end, std::byte{0});
}

namespace {

// Scale and offset of one row in one half of a cell.
struct Affine {
  float scale;
  float offset;
};

Affine affine_at(const PanelLayout& layout, const std::byte* panel, int64_t inputs, int64_t cell,
                 int half, int64_t row) {
  const std::byte* scales = scales_of(layout, panel, inputs) + cell * layout.scale_bytes();
  const std::byte* factors = factors_of(layout, panel, inputs) +
                             cell * kCellInputs / kNestedInputs * layout.factor_bytes();
  const auto zero = static_cast<float>(layout.zero);
  switch (layout.scales) {
    case PanelScales::kPlain: {
      const float d = half_at(scales, row);
      return {d, -zero * d};
    }
    case PanelScales::kMin:
      return {half_at(scales, row), half_at(scales + 32, row)};
    case PanelScales::kNested: {
      const float d =
          half_at(factors, row) * static_cast<float>(static_cast<int8_t>(scales[16 * half + row]));
      return {d, -zero * d};
    }
    default:
      return {half_at(factors, row) * static_cast<float>(static_cast<uint8_t>(scales[row])),
              -(half_at(factors + 32, row) *
                static_cast<float>(static_cast<uint8_t>(scales[16 + row])))};
  }
}

// Byte j of code vector v.
uint8_t code_at(int bits, const uint8_t* codes, int v, int j) {
  if (bits == 8) return codes[64 * v + j];
  int code = codes[64 * (v / 2) + j] >> (4 * (v % 2)) & 15;
  for (int bit = 4; bit < bits; ++bit) code |= (codes[256 + 64 * (bit - 4) + j] >> v & 1) << bit;
  return static_cast<uint8_t>(code);
}

}  // namespace

void decode_cell(const PanelLayout& layout, const std::byte* panel, int64_t inputs, int64_t cell,
                 PanelCell& out) {
  const auto* codes = reinterpret_cast<const uint8_t*>(panel) + cell * layout.code_bytes();
  for (int v = 0; v < 8; ++v) {
    for (int j = 0; j < 64; ++j) out.codes[v][j] = code_at(layout.bits, codes, v, j);
  }
  for (int half = 0; half < 2; ++half) {
    for (int64_t row = 0; row < kPanelRows; ++row) {
      const Affine affine = affine_at(layout, panel, inputs, cell, half, row);
      out.scale[half][row] = affine.scale;
      out.offset[half][row] = affine.offset;
    }
  }
}

void decode_panel_row(const PanelMatrix& matrix, int64_t row, float* out) {
  CHECK(row >= 0 && row < matrix.rows);
  const PanelLayout& layout = matrix.layout;
  const std::byte* panel = matrix.panel(row / kPanelRows);
  const int o = static_cast<int>(row % kPanelRows);
  for (int64_t cell = 0; cell < matrix.inputs / kCellInputs; ++cell) {
    const auto* codes = reinterpret_cast<const uint8_t*>(panel) + cell * layout.code_bytes();
    for (int half = 0; half < 2; ++half) {
      const Affine affine = affine_at(layout, panel, matrix.inputs, cell, half, o);
      for (int e = 16 * half; e < 16 * half + 16; ++e) {
        const uint8_t code = code_at(layout.bits, codes, e / 4, 4 * o + e % 4);
        out[cell * kCellInputs + e] = affine.scale * static_cast<float>(code) + affine.offset;
      }
    }
  }
}

}  // namespace ashlar
