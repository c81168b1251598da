// How GGUF blocks become panels (kernels/panels/panels.h): one row taken apart into unsigned codes
// and the factors of its scales. Nothing is rounded. Types whose codes are of 2 or 3 bits or go
// through a table stay rows.
#include "formats/gguf_blocks/gguf_panels.h"

#include <cstring>

#include "formats/gguf_blocks/block_parts.h"

namespace ashlar {

namespace {

uint16_t bits16(const uint8_t* bytes) {
  uint16_t value = 0;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// Low halves of the 16 bytes first, then the high ones.
void nibbles(const uint8_t* q, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) codes[i] = q[i] & 15;
  for (int i = 0; i < 16; ++i) codes[16 + i] = static_cast<uint8_t>(q[i] >> 4);
}

void add_fifth_bits(const uint8_t* high, uint8_t* codes) {
  uint32_t bits = 0;
  std::memcpy(&bits, high, sizeof(bits));
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(codes[i] | (bits >> i & 1) << 4);
}

// Blocks of 32: d f16, with kMin m f16, with five bits 4 bytes of high bits, 16 bytes of nibbles.
template <bool kMin, bool kFive>
void split_32(const std::byte* row, int64_t inputs, const PanelRow& out) {
  constexpr int kHigh = kMin ? 4 : 2;
  constexpr int kNibbles = kHigh + (kFive ? 4 : 0);
  const auto* block = reinterpret_cast<const uint8_t*>(row);
  for (int64_t b = 0; b < inputs / 32; ++b, block += kNibbles + 16) {
    out.factors[b] = bits16(block);
    if (kMin) out.factors2[b] = bits16(block + 2);
    nibbles(block + kNibbles, out.codes + 32 * b);
    if (kFive) add_fifth_bits(block + kHigh, out.codes + 32 * b);
  }
}

// d f16 @0, q i8 @2
void split_q8_0(const std::byte* row, int64_t inputs, const PanelRow& out) {
  const auto* block = reinterpret_cast<const uint8_t*>(row);
  for (int64_t b = 0; b < inputs / 32; ++b, block += 34) {
    out.factors[b] = bits16(block);
    for (int i = 0; i < 32; ++i) {
      out.codes[32 * b + i] = static_cast<uint8_t>(block[2 + i] ^ 128);  // i8 + 128
    }
  }
}

// d f16 @0, dmin f16 @2, scales and mins @4, with five bits 32 bytes of high bits @16, then nibbles
template <bool kFive>
void split_k(const std::byte* row, int64_t inputs, const PanelRow& out) {
  const auto* block = reinterpret_cast<const uint8_t*>(row);
  constexpr int kNibbles = kFive ? 48 : 16;
  for (int64_t b = 0; b < inputs / 256; ++b, block += kNibbles + 128) {
    out.factors[b] = bits16(block);
    out.factors2[b] = bits16(block + 2);
    for (int j = 0; j < 8; ++j) {
      const ScaleMin s = scale_min(block + 4, j);
      out.scales[8 * b + j] = static_cast<int8_t>(s.scale);
      out.scales2[8 * b + j] = static_cast<uint8_t>(s.min);
      const uint8_t* q = block + kNibbles + 32 * (j / 2);
      uint8_t* codes = out.codes + 256 * b + 32 * j;
      for (int i = 0; i < 32; ++i)
        codes[i] = j % 2 == 0 ? q[i] & 15 : static_cast<uint8_t>(q[i] >> 4);
      if (!kFive) continue;
      for (int i = 0; i < 32; ++i) {
        codes[i] = static_cast<uint8_t>(codes[i] | (block[16 + i] >> j & 1) << 4);
      }
    }
  }
}

// low bits @0 (128 bytes), high bits @128 (64 bytes), scales i8 @192 (16), d f16 @208
void split_q6_k(const std::byte* row, int64_t inputs, const PanelRow& out) {
  const auto* block = reinterpret_cast<const uint8_t*>(row);
  for (int64_t b = 0; b < inputs / 256; ++b, block += 210) {
    out.factors[b] = bits16(block + 208);
    std::memcpy(out.scales + 16 * b, block + 192, 16);
    for (int run = 0; run < 8; ++run) {  // of 32 elements
      const uint8_t* low = block + 64 * (run / 4) + 32 * (run % 2);
      const uint8_t* high = block + 128 + 32 * (run / 4);
      uint8_t* codes = out.codes + 256 * b + 32 * run;
      const int shift = run % 4 / 2 * 4;
      for (int i = 0; i < 32; ++i) {
        codes[i] =
            static_cast<uint8_t>((low[i] >> shift & 15) | (high[i] >> (2 * (run % 4)) & 3) << 4);
      }
    }
  }
}

}  // namespace

constinit const PanelSource q4_0_panels = {{4, PanelScales::kPlain, 8}, split_32<false, false>};
constinit const PanelSource q4_1_panels = {{4, PanelScales::kMin}, split_32<true, false>};
constinit const PanelSource q5_0_panels = {{5, PanelScales::kPlain, 16}, split_32<false, true>};
constinit const PanelSource q5_1_panels = {{5, PanelScales::kMin}, split_32<true, true>};
constinit const PanelSource q8_0_panels = {{8, PanelScales::kPlain, 128}, split_q8_0};
constinit const PanelSource q4_k_panels = {{4, PanelScales::kNestedMin}, split_k<false>};
constinit const PanelSource q5_k_panels = {{5, PanelScales::kNestedMin}, split_k<true>};
constinit const PanelSource q6_k_panels = {{6, PanelScales::kNested, 32}, split_q6_k};

}  // namespace ashlar
