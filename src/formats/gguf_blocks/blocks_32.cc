// The truth of the GGUF blocks of 32 elements. d is the scale, m the minimum, q the codes.
// Nibbles: the low half of byte j is element j, the high half element j + 16.
#include "formats/gguf_blocks/block_parts.h"
#include "formats/gguf_blocks/gguf_blocks.h"
#include "formats/gguf_blocks/gguf_panels.h"

namespace ashlar {

namespace {

int nibble(const uint8_t* q, int element) {
  return element < 16 ? q[element] & 15 : q[element - 16] >> 4;
}

// Bit 4 of element e is bit e of the four bytes at `high`.
int five_bits(const uint8_t* q, const uint8_t* high, int element) {
  return nibble(q, element) | ((high[element / 8] >> (element % 8)) & 1) << 4;
}

// d f16 @0, q @2
void q4_0(const uint8_t* b, float* out) {
  const float d = half_at(b);
  for (int e = 0; e < 32; ++e) out[e] = d * static_cast<float>(nibble(b + 2, e) - 8);
}

// d f16 @0, m f16 @2, q @4
void q4_1(const uint8_t* b, float* out) {
  const float d = half_at(b);
  const float m = half_at(b + 2);
  for (int e = 0; e < 32; ++e) out[e] = d * static_cast<float>(nibble(b + 4, e)) + m;
}

// d f16 @0, high bits u32 @2, q @6
void q5_0(const uint8_t* b, float* out) {
  const float d = half_at(b);
  for (int e = 0; e < 32; ++e) out[e] = d * static_cast<float>(five_bits(b + 6, b + 2, e) - 16);
}

// d f16 @0, m f16 @2, high bits u32 @4, q @8
void q5_1(const uint8_t* b, float* out) {
  const float d = half_at(b);
  const float m = half_at(b + 2);
  for (int e = 0; e < 32; ++e) out[e] = d * static_cast<float>(five_bits(b + 8, b + 4, e)) + m;
}

// d f16 @0, q i8 @2
void q8_0(const uint8_t* b, float* out) {
  const float d = half_at(b);
  for (int e = 0; e < 32; ++e) out[e] = d * static_cast<float>(static_cast<int8_t>(b[2 + e]));
}

// d f16 @0, q @2
void iq4_nl(const uint8_t* b, float* out) {
  const float d = half_at(b);
  for (int e = 0; e < 32; ++e) out[e] = d * static_cast<float>(kIq4Values[nibble(b + 2, e)]);
}

// exponent e8m0 @0, q e2m1 @1
void mxfp4(const uint8_t* b, float* out) {
  const float half = half_e8m0(b[0]);
  for (int e = 0; e < 32; ++e) out[e] = half * static_cast<float>(kTwiceE2m1[nibble(b + 1, e)]);
}

bool mxfp4_valid(const std::byte* blocks, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (blocks[i * 17] == std::byte{255}) return false;
  }
  return true;
}

}  // namespace

constinit const RowCodec q4_0_rows = {
    "Q4_0", 32, 18, decode_each<q4_0, 32, 18>, decode_cpu<BlockKind::kQ4_0>, nullptr, &q4_0_panels};
constinit const RowCodec q4_1_rows = {
    "Q4_1", 32, 20, decode_each<q4_1, 32, 20>, decode_cpu<BlockKind::kQ4_1>, nullptr, &q4_1_panels};
constinit const RowCodec q5_0_rows = {
    "Q5_0", 32, 22, decode_each<q5_0, 32, 22>, decode_cpu<BlockKind::kQ5_0>, nullptr, &q5_0_panels};
constinit const RowCodec q5_1_rows = {
    "Q5_1", 32, 24, decode_each<q5_1, 32, 24>, decode_cpu<BlockKind::kQ5_1>, nullptr, &q5_1_panels};
constinit const RowCodec q8_0_rows = {
    "Q8_0", 32, 34, decode_each<q8_0, 32, 34>, decode_cpu<BlockKind::kQ8_0>, nullptr, &q8_0_panels};
constinit const RowCodec iq4_nl_rows = {"IQ4_NL", 32, 18, decode_each<iq4_nl, 32, 18>,
                                        decode_cpu<BlockKind::kIq4Nl>};
constinit const RowCodec mxfp4_rows = {
    "MXFP4", 32, 17, decode_each<mxfp4, 32, 17>, decode_cpu<BlockKind::kMxfp4>, mxfp4_valid};

}  // namespace ashlar
