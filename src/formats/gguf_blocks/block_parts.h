// What the block decoders share: reading fields, the tables of the 4-bit number formats, the packed
// scales of Q4_K and Q5_K, and the names of the vector decoders. Internal to this folder.
#ifndef ASHLAR_FORMATS_GGUF_BLOCKS_BLOCK_PARTS_H_
#define ASHLAR_FORMATS_GGUF_BLOCKS_BLOCK_PARTS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "tensor/dtype.h"

namespace ashlar {

inline float half_at(const uint8_t* bytes) {
  F16 value;
  std::memcpy(&value, bytes, sizeof(value));
  return to_float(value);
}

// IQ4_NL's values of the codes 0 to 15.
alignas(16) constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};
// Twice the e2m1 values, which makes them integers. Code 8, minus zero, is plus zero here.
alignas(16) constexpr int8_t kTwiceE2m1[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                               0, -1, -2, -3, -4, -6, -8, -12};

// 2^(exponent - 128), half of what an e8m0 scale means, exact down to subnormals; 255 is NaN.
inline float half_e8m0(uint8_t exponent) {
  if (exponent == 255) return std::numeric_limits<float>::quiet_NaN();
  const uint32_t bits =
      exponent < 2 ? 0x00200000u << exponent : static_cast<uint32_t>(exponent - 1) << 23;
  return std::bit_cast<float>(bits);
}

// Scale and minimum, 6 bits each, of sub-block j of a Q4_K or Q5_K block, from its twelve bytes.
struct ScaleMin {
  int scale;
  int min;
};
inline ScaleMin scale_min(const uint8_t* b, int j) {
  if (j < 4) return {b[j] & 63, b[j + 4] & 63};
  return {(b[j + 4] & 15) | (b[j - 4] >> 6) << 4, (b[j + 4] >> 4) | (b[j] >> 6) << 4};
}

// The same for all eight sub-blocks: byte j is that of sub-block j.
struct PackedScaleMins {
  uint64_t scales;
  uint64_t mins;
};
inline PackedScaleMins packed_scale_mins(const uint8_t* b) {
  uint32_t words[3];
  std::memcpy(words, b, sizeof(words));
  const uint64_t low_scales = words[0] & 0x3f3f3f3fu;
  const uint64_t low_mins = words[1] & 0x3f3f3f3fu;
  const uint64_t high_scales = (words[2] & 0x0f0f0f0fu) | ((words[0] >> 6) & 0x03030303u) << 4;
  const uint64_t high_mins = ((words[2] >> 4) & 0x0f0f0f0fu) | ((words[1] >> 6) & 0x03030303u) << 4;
  return {low_scales | high_scales << 32, low_mins | high_mins << 32};
}

// Scale of 16 elements, 6 bits with offset 32, of group g of a Q3_K block, from its twelve bytes.
inline int q3_k_scale(const uint8_t* b, int g) {
  const int low = (b[g & 7] >> (4 * (g >> 3))) & 15;
  const int high = (b[8 + (g & 3)] >> (2 * (g >> 2))) & 3;
  return (low | high << 4) - 32;
}
// The same for all sixteen groups.
inline void q3_k_scales(const uint8_t* b, int8_t* scales) {
  uint32_t words[3];
  std::memcpy(words, b, sizeof(words));
  for (int i = 0; i < 4; ++i) {
    const uint32_t low = (words[i & 1] >> (4 * (i >> 1))) & 0x0f0f0f0fu;
    const uint32_t high = ((words[2] >> (2 * i)) & 0x03030303u) << 4;
    // Subtracting 32 from each byte: adding 96 keeps bit 7 free of borrows, and flipping it makes
    // the sign.
    const uint32_t shifted = ((low | high) + 0x60606060u) ^ 0x80808080u;
    std::memcpy(scales + 4 * i, &shifted, sizeof(shifted));
  }
}

// The vector decoders, in gguf_blocks_cpu.cc; its table has this order.
enum class BlockKind {
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kIq4Nl,
  kMxfp4,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K
};
void decode_vector(BlockKind kind, const std::byte* blocks, int64_t count, float* out);

template <BlockKind kKind>
void decode_cpu(const std::byte* blocks, int64_t count, float* out) {
  decode_vector(kKind, blocks, count, out);
}

// The truth of one block, repeated: kBlock decodes kBytes bytes to kElements values.
template <void (*kBlock)(const uint8_t* block, float* out), int kElements, int kBytes>
void decode_each(const std::byte* blocks, int64_t count, float* out) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(blocks);
  for (int64_t i = 0; i < count; ++i) kBlock(bytes + i * kBytes, out + i * kElements);
}

}  // namespace ashlar

#endif  // ASHLAR_FORMATS_GGUF_BLOCKS_BLOCK_PARTS_H_
