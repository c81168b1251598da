// What the AVX-512 codes of panel_matmul share, VNNI and AMX: unpacking of a cell, its scales and
// offsets, and what a block of products adds to a sum. All of it is always inlined, because the
// files that include it are compiled for different instruction sets.
#ifndef ASHLAR_KERNELS_PANEL_MATMUL_PANEL_CELL_AVX512_H_
#define ASHLAR_KERNELS_PANEL_MATMUL_PANEL_CELL_AVX512_H_

#include <immintrin.h>

#include "kernels/panel_matmul/panel_paths.h"

namespace ashlar {

// Code vector v of a cell.
template <int kBits>
[[gnu::always_inline]] inline __m512i load_code(const std::byte* cell, int v) {
  if constexpr (kBits == 8) return _mm512_load_si512(cell + 64 * v);
  const __m512i nibbles = _mm512_load_si512(cell + 64 * (v / 2));
  __m512i code =
      _mm512_and_si512(v % 2 == 0 ? nibbles : _mm512_srli_epi16(nibbles, 4), _mm512_set1_epi8(15));
  constexpr int kOr = 0xf8;  // a | (b & c)
#pragma GCC unroll 2
  for (int bit = 4; bit < kBits; ++bit) {
    const __m512i plane = _mm512_load_si512(cell + 256 + 64 * (bit - 4));
    const __m512i moved = v < bit ? _mm512_slli_epi16(plane, static_cast<unsigned>(bit - v))
                                  : _mm512_srli_epi16(plane, static_cast<unsigned>(v - bit));
    code =
        _mm512_ternarylogic_epi32(code, moved, _mm512_set1_epi8(static_cast<char>(1 << bit)), kOr);
  }
  return code;
}

[[gnu::always_inline]] inline __m512 load_halves(const std::byte* p) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(p)));
}
[[gnu::always_inline]] inline __m512 load_unsigned(const std::byte* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(p))));
}
[[gnu::always_inline]] inline __m512 load_signed(const std::byte* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(p))));
}

// Scale and offset of 16 rows in one half of a cell (both halves are equal but for kNested).
struct Affine {
  __m512 scale;
  __m512 offset;
};

template <PanelScales kScales>
[[gnu::always_inline]] inline Affine load_affine(const std::byte* scales, const std::byte* factors,
                                                 int half, __m512 zero) {
  if constexpr (kScales == PanelScales::kPlain) {
    const __m512 d = load_halves(scales);
    return {d, _mm512_mul_ps(zero, d)};
  } else if constexpr (kScales == PanelScales::kMin) {
    return {load_halves(scales), load_halves(scales + 32)};
  } else if constexpr (kScales == PanelScales::kNested) {
    const __m512 d = _mm512_mul_ps(load_halves(factors), load_signed(scales + 16 * half));
    return {d, _mm512_mul_ps(zero, d)};
  } else {
    const __m512 min = _mm512_mul_ps(load_halves(factors + 32), load_unsigned(scales + 16));
    const __m512 sign = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(0x80000000u)));
    return {_mm512_mul_ps(load_halves(factors), load_unsigned(scales)), _mm512_xor_ps(min, sign)};
  }
}

// Asks for what this panel's run reads 8 KiB later, at the pace of its cells. The hardware's
// prefetcher starts anew at each page; with this one row took 2.2 ms instead of 4.8 for 66 MB of
// Q4_1. 16 KiB were no better, 1 KiB half as good.
template <int kBits, PanelScales kScales>
[[gnu::always_inline]] inline void fetch_ahead(const PanelTile& tile, int64_t cell) {
  constexpr int64_t kAhead = 8192;
  constexpr int64_t kCellBytes = 64 * kBits + (kScales == PanelScales::kMin ? 64 : 32);
  const std::byte* next = tile.codes + cell * kCellBytes + kAhead;
#pragma GCC unroll 9
  for (int64_t i = 0; i < kCellBytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(next + i), _MM_HINT_T1);
  }
}

template <PanelScales kScales>
constexpr int kHalvesOf = kScales == PanelScales::kNested ? 2 : 1;

template <PanelScales kScales>
[[gnu::always_inline]] inline Affine affine_at(const PanelTile& tile, int64_t cell, int half,
                                               __m512 zero) {
  constexpr int64_t kScaleBytes = kScales == PanelScales::kMin ? 64 : 32;
  constexpr int64_t kFactorBytes = kScales == PanelScales::kNestedMin ? 64 : 32;
  return load_affine<kScales>(tile.affine + cell * kScaleBytes,
                              tile.factors + cell / (kNestedInputs / kCellInputs) * kFactorBytes,
                              half, zero);
}

// sum + what the products p of one half of a cell (or all of it) mean for one row.
template <PanelScales kScales>
[[gnu::always_inline]] inline __m512 add_block(__m512 p, const InputScale& row, int half,
                                               const Affine& affine, __m512 sum) {
  const float total = kScales == PanelScales::kNested ? row.halves[half] : row.sum;
  const __m512 scaled = _mm512_mul_ps(p, _mm512_set1_ps(row.scale));
  sum = _mm512_fmadd_ps(scaled, affine.scale, sum);
  return _mm512_fmadd_ps(_mm512_set1_ps(total), affine.offset, sum);
}

// Calls function.operator()<bits, scales>() for a layout that formats use; there are no others.
template <class Function>
[[gnu::always_inline]] inline void with_layout(const PanelLayout& layout,
                                               const Function& function) {
  const int bits = layout.bits;
  switch (layout.scales) {
    case PanelScales::kPlain:
      if (bits == 4) return function.template operator()<4, PanelScales::kPlain>();
      if (bits == 5) return function.template operator()<5, PanelScales::kPlain>();
      return function.template operator()<8, PanelScales::kPlain>();
    case PanelScales::kMin:
      if (bits == 4) return function.template operator()<4, PanelScales::kMin>();
      return function.template operator()<5, PanelScales::kMin>();
    case PanelScales::kNested:
      return function.template operator()<6, PanelScales::kNested>();
    case PanelScales::kNestedMin:
      if (bits == 4) return function.template operator()<4, PanelScales::kNestedMin>();
      return function.template operator()<5, PanelScales::kNestedMin>();
  }
}

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_PANEL_MATMUL_PANEL_CELL_AVX512_H_
