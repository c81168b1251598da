// panel_matmul with AVX-512 VNNI: one instruction multiplies 64 codes with 4 integers of a row.
//
// A tile is a panel times up to 16 rows. The 8 code vectors of a cell and the f32 sums stay in
// registers (8 + 16 of 32); each row then takes 16 multiplications, its integers broadcast from
// memory, and 6 instructions for shift, conversion and the two FMAs: 22 for 512 products. The high
// plane is summed first and shifted, so that the low plane continues the same register.
//
// No library code in this file: its functions would be compiled for these instructions and could be
// taken elsewhere.
#include <immintrin.h>

#include "kernels/panel_matmul/panel_paths.h"

namespace ashlar {

namespace {

template <int kBits>
[[gnu::always_inline]] inline void load_codes(const std::byte* cell, __m512i (&codes)[8]) {
  if constexpr (kBits == 8) {
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) codes[v] = _mm512_load_si512(cell + 64 * v);
    return;
  }
  const __m512i low = _mm512_set1_epi8(15);
#pragma GCC unroll 4
  for (int z = 0; z < 4; ++z) {
    const __m512i nibbles = _mm512_load_si512(cell + 64 * z);
    codes[2 * z] = _mm512_and_si512(nibbles, low);
    codes[2 * z + 1] = _mm512_and_si512(_mm512_srli_epi16(nibbles, 4), low);
  }
  constexpr int kOr = 0xf8;  // a | (b & c)
#pragma GCC unroll 2
  for (int bit = 4; bit < kBits; ++bit) {
    const __m512i plane = _mm512_load_si512(cell + 256 + 64 * (bit - 4));
    const __m512i wanted = _mm512_set1_epi8(static_cast<char>(1 << bit));
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) {
      const __m512i moved = v < bit ? _mm512_slli_epi16(plane, static_cast<unsigned>(bit - v))
                                    : _mm512_srli_epi16(plane, static_cast<unsigned>(v - bit));
      codes[v] = _mm512_ternarylogic_epi32(codes[v], moved, wanted, kOr);
    }
  }
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

[[gnu::always_inline]] inline __m512i broadcast(const std::byte* p) {
  int32_t four = 0;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm512_set1_epi32(four);
}

// Rows whose chains advance together: 12 for two planes, enough for two multiplications a cycle of
// five cycles' latency.
constexpr int kGroup = 6;

// What one cell adds to the sums of kRows rows, `stride` blocks apart. half: of the cell, for
// kNested.
template <PanelScales kScales, int kRows>
[[gnu::always_inline]] inline void add_cell(const __m512i* codes, const Affine& affine, int half,
                                            const std::byte* x, const InputScale* s, int64_t stride,
                                            __m512* sums) {
  constexpr bool kHalves = kScales == PanelScales::kNested;
  __m512i high[kRows];
  __m512i low[kRows];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) high[r] = low[r] = _mm512_setzero_si512();
#pragma GCC unroll 8
  for (int v = 0; v < (kHalves ? 4 : 8); ++v) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const std::byte* at = x + r * stride * kInputBlockBytes + 16 * half + 4 * v;
      high[r] = _mm512_dpbusd_epi32(high[r], codes[4 * half + v], broadcast(at));
      low[r] = _mm512_dpbusd_epi32(low[r], codes[4 * half + v], broadcast(at + 32));
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    const InputScale& row = s[r * stride];
    const float total = kHalves ? row.halves[half] : row.sum;
    const __m512i p = _mm512_add_epi32(low[r], _mm512_slli_epi32(high[r], 8));
    const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(p), _mm512_set1_ps(row.scale));
    sums[r] = _mm512_fmadd_ps(scaled, affine.scale, sums[r]);
    sums[r] = _mm512_fmadd_ps(_mm512_set1_ps(total), affine.offset, sums[r]);
  }
}

// Where the cells of a panel lie, walked in order.
template <int kBits, PanelScales kScales>
struct Walk {
  const PanelTile& tile;
  const __m512 zero = _mm512_set1_ps(-static_cast<float>(tile.layout.zero));
  static constexpr int kHalves = kScales == PanelScales::kNested ? 2 : 1;

  [[gnu::always_inline]] void load(int64_t cell, __m512i (&codes)[8]) const {
    load_codes<kBits>(tile.codes + cell * 64 * kBits, codes);
  }
  [[gnu::always_inline]] Affine affine(int64_t cell, int half) const {
    constexpr int64_t kScaleBytes = kScales == PanelScales::kMin ? 64 : 32;
    constexpr int64_t kFactorBytes = kScales == PanelScales::kNestedMin ? 64 : 32;
    return load_affine<kScales>(tile.affine + cell * kScaleBytes,
                                tile.factors + cell / (kNestedInputs / kCellInputs) * kFactorBytes,
                                half, zero);
  }
};

// Rows [first, first + kRows), up to one group: the sums stay in registers.
template <int kBits, PanelScales kScales, int kRows>
void multiply_few(const PanelTile& tile, int64_t first) {
  const Walk<kBits, kScales> walk{tile};
  __m512 sums[kRows];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) sums[r] = _mm512_setzero_ps();
  for (int64_t cell = 0; cell < tile.cells; ++cell) {
    const int64_t block = first * tile.cells + cell;
    __m512i codes[8];
    walk.load(cell, codes);
#pragma GCC unroll 2
    for (int half = 0; half < walk.kHalves; ++half) {
      add_cell<kScales, kRows>(codes, walk.affine(cell, half), half,
                               tile.inputs + block * kInputBlockBytes, tile.scales + block,
                               tile.cells, sums);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) _mm512_store_ps(tile.sums + (first + r) * kPanelRows, sums[r]);
}

// The first `rows` rows, a multiple of a group: a cell is unpacked once for all of them and the
// sums stay in the first-level cache.
template <int kBits, PanelScales kScales>
void multiply_groups(const PanelTile& tile, int64_t rows) {
  const Walk<kBits, kScales> walk{tile};
  for (int64_t r = 0; r < rows; ++r) {
    _mm512_store_ps(tile.sums + r * kPanelRows, _mm512_setzero_ps());
  }
  for (int64_t cell = 0; cell < tile.cells; ++cell) {
    __m512i codes[8];
    walk.load(cell, codes);
#pragma GCC unroll 2
    for (int half = 0; half < walk.kHalves; ++half) {
      const Affine affine = walk.affine(cell, half);
      for (int64_t r = 0; r < rows; r += kGroup) {
        const int64_t block = r * tile.cells + cell;
        add_cell<kScales, kGroup>(codes, affine, half, tile.inputs + block * kInputBlockBytes,
                                  tile.scales + block, tile.cells,
                                  reinterpret_cast<__m512*>(tile.sums + r * kPanelRows));
      }
    }
  }
}

// What is left of whole groups passes over the panel again, from the first-level cache. Cutting the
// rows evenly instead (8 as 4 + 4) was slower: shorter groups hide less.
template <int kBits, PanelScales kScales>
void multiply_layout(const PanelTile& tile) {
  const int64_t left = tile.rows % kGroup;
  const int64_t whole = tile.rows - left;
  if (whole == kGroup) multiply_few<kBits, kScales, kGroup>(tile, 0);
  if (whole > kGroup) multiply_groups<kBits, kScales>(tile, whole);
  switch (left) {
    case 1:
      return multiply_few<kBits, kScales, 1>(tile, whole);
    case 2:
      return multiply_few<kBits, kScales, 2>(tile, whole);
    case 3:
      return multiply_few<kBits, kScales, 3>(tile, whole);
    case 4:
      return multiply_few<kBits, kScales, 4>(tile, whole);
    case 5:
      return multiply_few<kBits, kScales, 5>(tile, whole);
    default:
      return;
  }
}

// The layouts that formats use; PanelPath::multiply has no others to expect.
void multiply(const PanelTile& tile) {
  const auto is = [&](int bits, PanelScales scales) {
    return tile.layout.bits == bits && tile.layout.scales == scales;
  };
  if (is(4, PanelScales::kMin)) return multiply_layout<4, PanelScales::kMin>(tile);
  if (is(4, PanelScales::kPlain)) return multiply_layout<4, PanelScales::kPlain>(tile);
  if (is(4, PanelScales::kNestedMin)) return multiply_layout<4, PanelScales::kNestedMin>(tile);
  if (is(5, PanelScales::kMin)) return multiply_layout<5, PanelScales::kMin>(tile);
  if (is(5, PanelScales::kPlain)) return multiply_layout<5, PanelScales::kPlain>(tile);
  if (is(5, PanelScales::kNestedMin)) return multiply_layout<5, PanelScales::kNestedMin>(tile);
  if (is(6, PanelScales::kNested)) return multiply_layout<6, PanelScales::kNested>(tile);
  if (is(8, PanelScales::kPlain)) return multiply_layout<8, PanelScales::kPlain>(tile);
  __builtin_trap();
}

// A block is [32 high][32 low].
void quantize(const float* x, int64_t inputs, std::byte* integers, InputScale* scales) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const __m512i half = _mm512_set1_epi32(128);
  for (int64_t k = 0; k < inputs; k += kCellInputs, integers += kInputBlockBytes, ++scales) {
    const __m512 values[2] = {_mm512_loadu_ps(x + k), _mm512_loadu_ps(x + k + 16)};
    const BlockScale block = block_scale(_mm512_reduce_max_epi32(
        _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(values[0]), magnitude),
                         _mm512_and_si512(_mm512_castps_si512(values[1]), magnitude))));
    int32_t sums[2];
    for (int i = 0; i < 2; ++i) {
      const __m512i q =
          block.inverse == 0.0f
              ? _mm512_setzero_si512()
              : _mm512_cvtps_epi32(_mm512_mul_ps(values[i], _mm512_set1_ps(block.inverse)));
      const __m512i high = _mm512_srai_epi32(_mm512_add_epi32(q, half), 8);
      const __m512i low = _mm512_sub_epi32(q, _mm512_slli_epi32(high, 8));
      _mm_store_si128(reinterpret_cast<__m128i*>(integers + 16 * i), _mm512_cvtepi32_epi8(high));
      _mm_store_si128(reinterpret_cast<__m128i*>(integers + 32 + 16 * i),
                      _mm512_cvtepi32_epi8(low));
      sums[i] = _mm512_reduce_add_epi32(q);
    }
    scales->scale = block.scale;
    scales->sum = static_cast<float>(sums[0] + sums[1]) * block.scale;
    scales->halves[0] = static_cast<float>(sums[0]) * block.scale;
    scales->halves[1] = static_cast<float>(sums[1]) * block.scale;
  }
}

bool usable() {
  return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

}  // namespace

constinit const PanelPath panel_path_vnni = {"avx512-vnni", usable, quantize, multiply};

}  // namespace ashlar
