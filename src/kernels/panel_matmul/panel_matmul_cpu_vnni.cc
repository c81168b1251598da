// panel_matmul with AVX-512 VNNI: one instruction multiplies 64 codes with 4 integers of a row.
//
// A cell of codes is unpacked to 8 vectors. Each row then takes 16 multiplications, its integers
// broadcast from memory, and 5 instructions to join the planes, scale and add twice: 21 for 512
// products, where f32 takes 32 FMAs. Unpacking adds 12 for all rows of a group and the scales 4.
//
// Measured 2026-12-01 on two cores of a Xeon without AMX (2.9 GHz: 375 GFLOP/s a core if it did
// nothing but multiply), both threads before all other work, 30 layers of SmolLM2 (Q4_1, 66 MB,
// re-read from memory in every pass): 1 row 1.48 ms (45 GB/s), 8 rows 4.97 ms; its head (Q8_0,
// 31 MB) at 8 rows 1.00 ms. From the first-level cache a core reaches 245 GFLOP/s at 8 rows, which
// is 94 % of two instructions a cycle: what is left is the count of instructions. Asking for the
// next cells into the first level changed nothing.
//
// No library code in this file: its functions would be compiled for these instructions and could be
// taken elsewhere.
#include <immintrin.h>

#include "kernels/panel_matmul/panel_cell_avx512.h"
#include "kernels/panel_matmul/panel_paths.h"

namespace ashlar {

namespace {

[[gnu::always_inline]] inline __m512i broadcast(const std::byte* p) {
  int32_t four = 0;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm512_set1_epi32(four);
}

// Rows that advance together: their 16 chains and the sums fill the registers, and keep two
// multiplications a cycle busy in spite of five cycles' latency. Groups of 6 were 7 % slower,
// single rows 70 %.
constexpr int kGroup = 8;

// Where the integer sums of the planes begin: with the bits of 1.5 * 2^31 and 1.5 * 2^23, as floats
// in which one more is 256 and 1. So a sum is at once the bits of the float kHighBase + 256 high or
// kLowBase + low, exact while it stays below 2^22 (a cell has at most 32 * 255 * 128).
constexpr int32_t kHighStart = 0x4f400000;
constexpr int32_t kLowStart = 0x4b400000;
constexpr float kHighBase = 0x1.8p31f;
constexpr float kLowBase = 0x1.8p23f;

// f32(256 high + low): the difference is a multiple of 256 below 2^32, exact; the sum rounds once,
// as the conversion of the integer would. Two instructions instead of shift, addition and
// conversion.
[[gnu::always_inline]] inline __m512 join_planes(__m512 high, __m512 low) {
  return _mm512_add_ps(_mm512_sub_ps(high, _mm512_set1_ps(kHighBase + kLowBase)), low);
}

// What one half of a cell, or all of it unless scales cover 16 k, adds to the sums of kRows rows,
// `stride` blocks apart.
template <PanelScales kScales, int kRows, class Code>
[[gnu::always_inline]] inline void add_cell(const Code& code, const Affine& affine, int half,
                                            const std::byte* x, const InputScale* s, int64_t stride,
                                            __m512* sums) {
  const __m512i high_start = _mm512_set1_epi32(kHighStart);
  const __m512i low_start = _mm512_set1_epi32(kLowStart);
  __m512i high[kRows];
  __m512i low[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    high[r] = high_start;
    low[r] = low_start;
  }
#pragma GCC unroll 8
  for (int v = 0; v < 8 / kHalvesOf<kScales>; ++v) {
    const __m512i codes = code(4 * half + v);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const std::byte* at = x + r * stride * kInputBlockBytes + 16 * half + 4 * v;
      high[r] = _mm512_dpbusd_epi32(high[r], codes, broadcast(at));
      low[r] = _mm512_dpbusd_epi32(low[r], codes, broadcast(at + 32));
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m512 p = join_planes(_mm512_castsi512_ps(high[r]), _mm512_castsi512_ps(low[r]));
    sums[r] = add_block<kScales>(p, s[r * stride], half, affine, sums[r]);
  }
}

// Rows [first, first + kRows), up to one group: codes are unpacked where they are used, the sums
// stay in registers.
template <int kBits, PanelScales kScales, int kRows>
void multiply_few(const PanelTile& tile, int64_t first) {
  const __m512 zero = _mm512_set1_ps(-static_cast<float>(tile.layout.zero));
  __m512 sums[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) sums[r] = _mm512_setzero_ps();
  for (int64_t cell = 0; cell < tile.cells; ++cell) {
    const int64_t block = first * tile.cells + cell;
    const std::byte* codes = tile.codes + cell * 64 * kBits;
    fetch_ahead<kBits, kScales>(tile, cell);
#pragma GCC unroll 2
    for (int half = 0; half < kHalvesOf<kScales>; ++half) {
      add_cell<kScales, kRows>([codes](int v) { return load_code<kBits>(codes, v); },
                               affine_at<kScales>(tile, cell, half, zero), half,
                               tile.inputs + block * kInputBlockBytes, tile.scales + block,
                               tile.cells, sums);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) _mm512_store_ps(tile.sums + (first + r) * kPanelRows, sums[r]);
}

// The first `rows` rows, a multiple of a group: a cell is unpacked once for all of them; codes and
// sums stay in the first-level cache.
template <int kBits, PanelScales kScales>
void multiply_groups(const PanelTile& tile, int64_t rows) {
  const __m512 zero = _mm512_set1_ps(-static_cast<float>(tile.layout.zero));
  for (int64_t r = 0; r < rows; ++r) {
    _mm512_store_ps(tile.sums + r * kPanelRows, _mm512_setzero_ps());
  }
  for (int64_t cell = 0; cell < tile.cells; ++cell) {
    fetch_ahead<kBits, kScales>(tile, cell);
    alignas(64) __m512i codes[8];
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) codes[v] = load_code<kBits>(tile.codes + cell * 64 * kBits, v);
    asm volatile("" ::"r"(codes) : "memory");  // they are to be loaded again, not kept
    for (int half = 0; half < kHalvesOf<kScales>; ++half) {
      const Affine affine = affine_at<kScales>(tile, cell, half, zero);
      for (int64_t r = 0; r < rows; r += kGroup) {
        const int64_t block = r * tile.cells + cell;
        add_cell<kScales, kGroup>([&codes](int v) { return codes[v]; }, affine, half,
                                  tile.inputs + block * kInputBlockBytes, tile.scales + block,
                                  tile.cells,
                                  reinterpret_cast<__m512*>(tile.sums + r * kPanelRows));
      }
    }
  }
}

// What is left of whole groups passes over the panel again, from the first-level cache.
template <int kBits, PanelScales kScales>
void multiply_layout(const PanelTile& tile) {
  const int64_t left = tile.rows % kGroup;
  const int64_t whole = tile.rows - left;
  if (whole == kGroup) multiply_few<kBits, kScales, kGroup>(tile, 0);
  if (whole > kGroup) multiply_groups<kBits, kScales>(tile, whole);
  using Few = void (*)(const PanelTile&, int64_t);
  static constexpr Few kFew[kGroup] = {
      nullptr,
      multiply_few<kBits, kScales, 1>,
      multiply_few<kBits, kScales, 2>,
      multiply_few<kBits, kScales, 3>,
      multiply_few<kBits, kScales, 4>,
      multiply_few<kBits, kScales, 5>,
      multiply_few<kBits, kScales, 6>,
      multiply_few<kBits, kScales, 7>,
  };
  if (left > 0) kFew[left](tile, whole);
}

void multiply(const PanelTile& tile) {
  with_layout(
      tile.layout, [&]<int kBits, PanelScales kScales>()
                       __attribute__((always_inline)) { multiply_layout<kBits, kScales>(tile); });
}

// Sums of the four lanes that are 4 apart.
[[gnu::always_inline]] inline __m128i fold_to_four(__m512i v) {
  const __m256i eight =
      _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
}

// The sums of both halves of a block in one vector, in the order of InputScale.
[[gnu::always_inline]] inline void store_scale(float scale, __m512i first, __m512i second,
                                               InputScale* out) {
  const __m128i pairs = _mm_hadd_epi32(fold_to_four(first), fold_to_four(second));
  const __m128i halves = _mm_hadd_epi32(pairs, pairs);  // first, second, first, second
  const __m128i sums = _mm_blend_epi32(_mm_hadd_epi32(halves, halves), halves, 12);
  const __m128 factor = _mm_set1_ps(scale);
  const __m128 scaled = _mm_mul_ps(_mm_cvtepi32_ps(sums), factor);
  _mm_storeu_ps(&out->scale, _mm_blend_ps(scaled, factor, 1));
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
    __m512i q[2];
    for (int i = 0; i < 2; ++i) {
      q[i] = block.inverse == 0.0f
                 ? _mm512_setzero_si512()
                 : _mm512_cvtps_epi32(_mm512_mul_ps(values[i], _mm512_set1_ps(block.inverse)));
      const __m512i high = _mm512_srai_epi32(_mm512_add_epi32(q[i], half), 8);
      const __m512i low = _mm512_sub_epi32(q[i], _mm512_slli_epi32(high, 8));
      _mm_store_si128(reinterpret_cast<__m128i*>(integers + 16 * i), _mm512_cvtepi32_epi8(high));
      _mm_store_si128(reinterpret_cast<__m128i*>(integers + 32 + 16 * i),
                      _mm512_cvtepi32_epi8(low));
    }
    store_scale(block.scale, q[0], q[1], scales);
  }
}

bool usable() {
  return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

}  // namespace

constinit const PanelPath panel_path_vnni = {"avx512-vnni", usable, quantize, multiply};

}  // namespace ashlar
