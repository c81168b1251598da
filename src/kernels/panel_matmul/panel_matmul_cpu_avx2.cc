// panel_matmul with AVX2, for machines without VNNI: codes and integers of x are widened to 16 bits
// and multiplied in pairs, which cannot overflow, unlike the 8-bit instruction of this set.
//
// A code vector holds four k of eight outputs in 32 bytes. Its even bytes are the pair (k, k + 2),
// its odd bytes (k + 1, k + 3); the integers of a row are stored in the same order.
#include <immintrin.h>

#include "kernels/panel_matmul/panel_paths.h"

namespace ashlar {

namespace {

// 8 outputs of a panel, one cell: [8 vectors][even, odd].
using HalfCodes = __m256i[8][2];

void load_codes(int bits, const std::byte* cell, int side, HalfCodes& codes) {
  const __m256i low = _mm256_set1_epi8(15);
  const __m256i byte = _mm256_set1_epi16(255);
  for (int v = 0; v < 8; ++v) {
    const auto* at =
        reinterpret_cast<const __m256i*>(cell + 64 * (bits == 8 ? v : v / 2) + 32 * side);
    __m256i code = _mm256_load_si256(at);
    if (bits < 8) {
      code = _mm256_and_si256(v % 2 == 0 ? code : _mm256_srli_epi16(code, 4), low);
      for (int bit = 4; bit < bits; ++bit) {
        const __m256i plane = _mm256_load_si256(
            reinterpret_cast<const __m256i*>(cell + 256 + 64 * (bit - 4) + 32 * side));
        const __m256i down = _mm256_and_si256(_mm256_srli_epi16(plane, v), _mm256_set1_epi8(1));
        code = _mm256_or_si256(code, _mm256_slli_epi16(down, bit));
      }
    }
    codes[v][0] = _mm256_and_si256(code, byte);
    codes[v][1] = _mm256_srli_epi16(code, 8);
  }
}

__m256 load_halves(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(p)));
}
__m256 load_unsigned(const std::byte* p) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
__m256 load_signed(const std::byte* p) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

struct Affine {
  __m256 scale;
  __m256 offset;
};

Affine load_affine(const PanelLayout& layout, const std::byte* scales, const std::byte* factors,
                   int half, int side) {
  const __m256 zero = _mm256_set1_ps(-static_cast<float>(layout.zero));
  scales += (layout.nested() ? 8 : 16) * side;
  factors += 16 * side;
  switch (layout.scales) {
    case PanelScales::kPlain: {
      const __m256 d = load_halves(scales);
      return {d, _mm256_mul_ps(zero, d)};
    }
    case PanelScales::kMin:
      return {load_halves(scales), load_halves(scales + 32)};
    case PanelScales::kNested: {
      const __m256 d = _mm256_mul_ps(load_halves(factors), load_signed(scales + 16 * half));
      return {d, _mm256_mul_ps(zero, d)};
    }
    default: {
      const __m256 min = _mm256_mul_ps(load_halves(factors + 32), load_unsigned(scales + 16));
      return {_mm256_mul_ps(load_halves(factors), load_unsigned(scales)),
              _mm256_xor_ps(min, _mm256_set1_ps(-0.0f))};
    }
  }
}

__m256i broadcast(const std::byte* p) {
  int32_t pair = 0;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return _mm256_set1_epi32(pair);
}

// P over vectors [begin, begin + count) for 8 outputs.
__m256i product(const HalfCodes& codes, const std::byte* x, int begin, int count) {
  __m256i even = _mm256_setzero_si256();
  __m256i odd = _mm256_setzero_si256();
  for (int v = begin; v < begin + count; ++v) {
    even = _mm256_add_epi32(even, _mm256_madd_epi16(codes[v][0], broadcast(x + 8 * v)));
    odd = _mm256_add_epi32(odd, _mm256_madd_epi16(codes[v][1], broadcast(x + 8 * v + 4)));
  }
  return _mm256_add_epi32(even, odd);
}

// Side 0 or 1: outputs 0 to 7 or 8 to 15 of the panel.
void multiply_side(const PanelTile& tile, int side) {
  const PanelLayout& layout = tile.layout;
  const int64_t cells = tile.cells;
  const int halves = layout.scales == PanelScales::kNested ? 2 : 1;
  const int vectors = 8 / halves;
  __m256 sums[kPanelTileRows];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  for (int64_t cell = 0; cell < cells; ++cell) {
    HalfCodes codes;
    load_codes(layout.bits, tile.codes + cell * layout.code_bytes(), side, codes);
    for (int half = 0; half < halves; ++half) {
      const Affine affine = load_affine(
          layout, tile.affine + cell * layout.scale_bytes(),
          tile.factors + cell / (kNestedInputs / kCellInputs) * layout.factor_bytes(), half, side);
      for (int64_t r = 0; r < tile.rows; ++r) {
        const int64_t block = r * cells + cell;
        const InputScale& s = tile.scales[block];
        const __m256i p =
            product(codes, tile.inputs + block * kInputBlockBytes, vectors * half, vectors);
        const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(p), _mm256_set1_ps(s.scale));
        const float total = halves == 2 ? s.halves[half] : s.sum;
        sums[r] = _mm256_fmadd_ps(scaled, affine.scale, sums[r]);
        sums[r] = _mm256_fmadd_ps(_mm256_set1_ps(total), affine.offset, sums[r]);
      }
    }
  }
  for (int64_t r = 0; r < tile.rows; ++r) {
    _mm256_store_ps(tile.sums + r * kPanelRows + 8 * side, sums[r]);
  }
}

void multiply(const PanelTile& tile) {
  multiply_side(tile, 0);
  multiply_side(tile, 1);
}

// A block is 32 integers of 16 bits; each four of them in the order 0 2 1 3.
void quantize(const float* x, int64_t inputs, std::byte* integers, InputScale* scales) {
  for (int64_t k = 0; k < inputs; k += kCellInputs, integers += kInputBlockBytes, ++scales) {
    int32_t largest = 0;
    for (int64_t i = 0; i < kCellInputs; ++i) {
      int32_t bits = 0;
      __builtin_memcpy(&bits, x + k + i, sizeof(bits));
      bits &= 0x7fffffff;
      largest = bits > largest ? bits : largest;
    }
    const BlockScale block = block_scale(largest);
    int32_t sums[2] = {0, 0};
    int16_t q[kCellInputs] = {};
    for (int64_t i = 0; i < kCellInputs && block.inverse != 0.0f; ++i) {
      const auto value = static_cast<int16_t>(_mm_cvtss_si32(_mm_set_ss(x[k + i] * block.inverse)));
      constexpr int64_t kOrder[4] = {0, 2, 1, 3};
      q[i / 4 * 4 + kOrder[i % 4]] = value;
      sums[i / 16] += value;
    }
    __builtin_memcpy(integers, q, sizeof(q));
    scales->scale = block.scale;
    scales->sum = static_cast<float>(sums[0] + sums[1]) * block.scale;
    scales->halves[0] = static_cast<float>(sums[0]) * block.scale;
    scales->halves[1] = static_cast<float>(sums[1]) * block.scale;
  }
}

bool usable() { return true; }  // the build's baseline

}  // namespace

constinit const PanelPath panel_path_avx2 = {"avx2", usable, quantize, multiply};

}  // namespace ashlar
