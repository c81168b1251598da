// The truth of the GGUF blocks of 256 elements ("K-quants"): scales of 16 or 32 elements that are
// themselves integers with a common f16 factor. d and dmin are those factors, e an element, g its
// group of 16, j its sub-block of 32.
#include "formats/gguf_blocks/block_parts.h"
#include "formats/gguf_blocks/gguf_blocks.h"
#include "formats/gguf_blocks/gguf_panels.h"

namespace ashlar {

namespace {

constexpr int kElements = 256;

int two_bits(const uint8_t* q, int e) {
  return (q[32 * (e >> 7) + (e & 31)] >> (2 * ((e >> 5) & 3))) & 3;
}
int four_bits(const uint8_t* q, int e) {
  return (q[32 * (e >> 6) + (e & 31)] >> (4 * ((e >> 5) & 1))) & 15;
}

// scales @0 (16 bytes: scale low, min high), q @16, d f16 @80, dmin f16 @82
void q2_k(const uint8_t* b, float* out) {
  const float d = half_at(b + 80);
  const float dmin = half_at(b + 82);
  for (int e = 0; e < kElements; ++e) {
    const int scales = b[e >> 4];
    const float scale = d * static_cast<float>(scales & 15);
    const float min = dmin * static_cast<float>(scales >> 4);
    out[e] = scale * static_cast<float>(two_bits(b + 16, e)) - min;
  }
}

// high bits @0 (bit e/32 of byte e%32), q @32, scales @96 (12 bytes), d f16 @108
void q3_k(const uint8_t* b, float* out) {
  const float d = half_at(b + 108);
  for (int e = 0; e < kElements; ++e) {
    const bool high = ((b[e & 31] >> (e >> 5)) & 1) != 0;
    const float scale = d * static_cast<float>(q3_k_scale(b + 96, e >> 4));
    out[e] = scale * static_cast<float>(two_bits(b + 32, e) - (high ? 0 : 4));
  }
}

// d f16 @0, dmin f16 @2, scales and mins @4 (12 bytes), q @16
void q4_k(const uint8_t* b, float* out) {
  const float d = half_at(b);
  const float dmin = half_at(b + 2);
  for (int e = 0; e < kElements; ++e) {
    const ScaleMin s = scale_min(b + 4, e >> 5);
    out[e] = (d * static_cast<float>(s.scale)) * static_cast<float>(four_bits(b + 16, e)) -
             dmin * static_cast<float>(s.min);
  }
}

// d f16 @0, dmin f16 @2, scales and mins @4 (12 bytes), high bits @16 (bit e/32 of byte e%32), q
// @48
void q5_k(const uint8_t* b, float* out) {
  const float d = half_at(b);
  const float dmin = half_at(b + 2);
  for (int e = 0; e < kElements; ++e) {
    const ScaleMin s = scale_min(b + 4, e >> 5);
    const int q = four_bits(b + 48, e) | ((b[16 + (e & 31)] >> (e >> 5)) & 1) << 4;
    out[e] = (d * static_cast<float>(s.scale)) * static_cast<float>(q) -
             dmin * static_cast<float>(s.min);
  }
}

// low bits @0 (128 bytes), high bits @128 (64 bytes), scales i8 @192 (16), d f16 @208
void q6_k(const uint8_t* b, float* out) {
  const float d = half_at(b + 208);
  for (int e = 0; e < kElements; ++e) {
    const int half = e >> 7;
    const int run = (e >> 5) & 3;
    const int low = (b[64 * half + 32 * (run & 1) + (e & 31)] >> (4 * (run >> 1))) & 15;
    const int high = (b[128 + 32 * half + (e & 31)] >> (2 * run)) & 3;
    const float scale = d * static_cast<float>(static_cast<int8_t>(b[192 + (e >> 4)]));
    out[e] = scale * static_cast<float>((low | high << 4) - 32);
  }
}

}  // namespace

constinit const RowCodec q2_k_rows = {"Q2_K", 256, 84, decode_each<q2_k, 256, 84>,
                                      decode_cpu<BlockKind::kQ2K>};
constinit const RowCodec q3_k_rows = {"Q3_K", 256, 110, decode_each<q3_k, 256, 110>,
                                      decode_cpu<BlockKind::kQ3K>};
constinit const RowCodec q4_k_rows = {
    "Q4_K",  256,         144, decode_each<q4_k, 256, 144>, decode_cpu<BlockKind::kQ4K>,
    nullptr, &q4_k_panels};
constinit const RowCodec q5_k_rows = {
    "Q5_K",  256,         176, decode_each<q5_k, 256, 176>, decode_cpu<BlockKind::kQ5K>,
    nullptr, &q5_k_panels};
constinit const RowCodec q6_k_rows = {
    "Q6_K",  256,         210, decode_each<q6_k, 256, 210>, decode_cpu<BlockKind::kQ6K>,
    nullptr, &q6_k_panels};

}  // namespace ashlar
