// panel_matmul with AMX: a tile instruction multiplies up to 16 rows of x with the 16 outputs of a
// panel, over a whole cell of 32 k.
//
// The operands lie in memory as tiles already: 16 rows of one plane are the left one, the 8
// unpacked code vectors of a cell the right one. Two products, for the high and the low plane, are
// stored and scaled by AVX-512 like those of VNNI, which takes most of the time: 6 instructions a
// row against one tile product. Few rows would leave tiles empty and go to the VNNI code, whose
// integers of x are the same. Layouts whose scales cover 16 k use tiles of half the depth.
//
// Measured 2026-11-30 on 2 threads of a Xeon with AMX, 30 layers of SmolLM2 (Q4_1): 294 GFLOP/s for
// 512 rows where VNNI has 216, 233 and 217 for 16; 16 threads 1389 and 1258.
//
// No library code in this file: its functions would be compiled for these instructions and could be
// taken elsewhere.
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/panel_matmul/panel_cell_avx512.h"
#include "kernels/panel_matmul/panel_paths.h"

namespace ashlar {

namespace {

constexpr int64_t kTileRows = 16;
constexpr int64_t kFewRows = 15;  // up to here VNNI is as fast

// The registers: products high 0 and low 1, planes high 2 and low 3, codes 4.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// The compiler does not know what the tile instructions read (g++ 12 names eight bytes of the
// configuration and nothing of a tile): all stores before this are made.
[[gnu::always_inline]] inline void finish_stores() { asm volatile("" ::: "memory"); }

// rows of x against cells (or halves of them) of `depth` k.
void configure(int64_t rows, int64_t depth) {
  TileConfig config;
  for (int i = 0; i < 4; ++i) config.rows[i] = static_cast<uint8_t>(rows);
  for (int i = 0; i < 2; ++i) config.row_bytes[i] = 64;
  for (int i = 2; i < 4; ++i) config.row_bytes[i] = static_cast<uint16_t>(depth);
  config.rows[4] = static_cast<uint8_t>(depth / 4);
  config.row_bytes[4] = 64;
  asm volatile("" ::"r"(&config) : "memory");
  _tile_loadconfig(&config);
}

template <int kBits, PanelScales kScales>
void multiply_tile(const PanelTile& tile, int64_t first, int64_t rows) {
  constexpr int kHalves = kHalvesOf<kScales>;
  alignas(64) __m512i codes[8];
  alignas(64) int32_t high[kTileRows][16];
  alignas(64) int32_t low[kTileRows][16];
  const __m512 zero = _mm512_set1_ps(-static_cast<float>(tile.layout.zero));
  float* sums = tile.sums + first * kPanelRows;
  for (int64_t r = 0; r < rows; ++r) _mm512_store_ps(sums + r * kPanelRows, _mm512_setzero_ps());
  configure(rows, kCellInputs / kHalves);
  for (int64_t cell = 0; cell < tile.cells; ++cell) {
    fetch_ahead<kBits, kScales>(tile, cell);
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) codes[v] = load_code<kBits>(tile.codes + cell * 64 * kBits, v);
    const int64_t block = first * tile.cells + cell;
    const std::byte* x = tile.inputs + block * kInputBlockBytes;
    const int64_t stride = tile.cells * kInputBlockBytes;
    for (int half = 0; half < kHalves; ++half) {
      finish_stores();
      _tile_zero(0);
      _tile_zero(1);
      _tile_loadd(4, codes + 4 * half, 64);
      _tile_loadd(2, x + 16 * half, stride);
      _tile_loadd(3, x + 32 + 16 * half, stride);
      _tile_dpbsud(0, 2, 4);
      _tile_dpbsud(1, 3, 4);
      _tile_stored(0, high, 64);
      _tile_stored(1, low, 64);
      const Affine affine = affine_at<kScales>(tile, cell, half, zero);
      for (int64_t r = 0; r < rows; ++r) {
        const __m512 p = _mm512_cvtepi32_ps(_mm512_add_epi32(
            _mm512_load_si512(low[r]), _mm512_slli_epi32(_mm512_load_si512(high[r]), 8)));
        const __m512 sum = _mm512_load_ps(sums + r * kPanelRows);
        _mm512_store_ps(
            sums + r * kPanelRows,
            add_block<kScales>(p, tile.scales[block + r * tile.cells], half, affine, sum));
      }
    }
  }
  _tile_release();
}

template <int kBits, PanelScales kScales>
void multiply_layout(const PanelTile& tile) {
  for (int64_t first = 0; first < tile.rows; first += kTileRows) {
    const int64_t left = tile.rows - first;
    multiply_tile<kBits, kScales>(tile, first, left < kTileRows ? left : kTileRows);
  }
}

void multiply(const PanelTile& tile) {
  if (tile.rows <= kFewRows) return panel_path_vnni.multiply(tile);
  with_layout(
      tile.layout, [&]<int kBits, PanelScales kScales>()
                       __attribute__((always_inline)) { multiply_layout<kBits, kScales>(tile); });
}

void quantize(const float* x, int64_t inputs, std::byte* integers, InputScale* scales) {
  panel_path_vnni.quantize(x, inputs, integers, scales);
}

// The processor has tiles and their int8 products, and the system lets this process use their
// registers, which it must ask for once.
bool usable() {
  constexpr unsigned kTiles = 1u << 24;
  constexpr unsigned kInt8 = 1u << 25;
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (!panel_path_vnni.usable() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kTiles) == 0 || (d & kInt8) == 0) return false;
  static const bool allowed = ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return allowed;
}

}  // namespace

constinit const PanelPath panel_path_amx = {"amx-int8", usable, quantize, multiply};

}  // namespace ashlar
