// Vector decoders of all GGUF blocks, in two stages: unpack a block's codes to signed bytes, 16 or 32 at a time, then
// scale runs of 16 or 32 codes to f32. The bits are those of the truth: the same product and sum, rounded apart, and
// x - y is computed as x + (-y). Nothing here depends on the vector width.
#include "formats/gguf_blocks/block_parts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/gguf_blocks/gguf_blocks_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ashlar {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, 16>;
using Bytes16 = hn::FixedTag<uint8_t, 16>;
using Bytes32 = hn::FixedTag<uint8_t, 32>;
using Vec32 = hn::Vec<Bytes32>;
constexpr Floats kFloats;
constexpr Bytes16 kBytes16;
constexpr Bytes32 kBytes32;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Floats()));

HWY_INLINE float half_value(const uint8_t* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  const hn::FixedTag<uint16_t, 4> words;
  const hn::FixedTag<float, 4> floats;
  const hn::Rebind<hwy::float16_t, decltype(floats)> halves;
  return hn::GetLane(hn::PromoteTo(floats, hn::BitCast(halves, hn::Set(words, bits))));
}

// out[i] = d * q[i] for i < kCount.
template <int kCount>
HWY_INLINE void scale(const int8_t* q, float d, float* out) {
  const hn::RebindToSigned<Floats> ints;
  const hn::Rebind<int8_t, Floats> bytes;
  const auto factor = hn::Set(kFloats, d);
#pragma GCC unroll 4
  for (int i = 0; i < kCount; i += kLanes) {
    const auto value = hn::ConvertTo(kFloats, hn::PromoteTo(ints, hn::LoadU(bytes, q + i)));
    hn::StoreU(hn::Mul(factor, value), kFloats, out + i);
  }
}

// out[i] = d * q[i] + m for i < kCount.
template <int kCount>
HWY_INLINE void scale_add(const int8_t* q, float d, float m, float* out) {
  const hn::RebindToSigned<Floats> ints;
  const hn::Rebind<int8_t, Floats> bytes;
  const auto factor = hn::Set(kFloats, d);
  const auto offset = hn::Set(kFloats, m);
#pragma GCC unroll 4
  for (int i = 0; i < kCount; i += kLanes) {
    const auto value = hn::ConvertTo(kFloats, hn::PromoteTo(ints, hn::LoadU(bytes, q + i)));
    hn::StoreU(hn::Add(hn::Mul(factor, value), offset), kFloats, out + i);
  }
}

HWY_INLINE void store(Vec32 codes, int8_t* q) { hn::StoreU(codes, kBytes32, reinterpret_cast<uint8_t*>(q)); }
HWY_INLINE Vec32 load32(const uint8_t* bytes) { return hn::LoadU(kBytes32, bytes); }
HWY_INLINE Vec32 set32(int value) { return hn::Set(kBytes32, static_cast<uint8_t>(value)); }

// The 32 nibbles of 16 bytes: low halves first.
HWY_INLINE Vec32 nibbles(const uint8_t* bytes) {
  const auto both = hn::LoadU(kBytes16, bytes);
  const auto low = hn::And(both, hn::Set(kBytes16, 15));
  return hn::Combine(kBytes32, hn::ShiftRight<4>(both), low);
}

// 16 where the element's bit of the four bytes is set.
HWY_INLINE Vec32 fifth_bits(const uint8_t* bits) {
  return hn::IfThenElseZero(hn::LoadMaskBits(kBytes32, bits), set32(16));
}

// `value` where bit `bit` of the element's byte is set.
HWY_INLINE Vec32 where_bit(Vec32 bytes, int bit, int value) {
  return hn::IfThenElseZero(hn::TestBit(bytes, set32(1 << bit)), set32(value));
}

// The values of the table's 16 entries for 32 codes.
HWY_INLINE Vec32 look_up(const int8_t* table, Vec32 codes) {
  const auto entries = hn::LoadDup128(kBytes32, reinterpret_cast<const uint8_t*>(table));
  return hn::TableLookupBytes(entries, codes);
}

void q4_0(const uint8_t* b, float* out) {
  alignas(32) int8_t q[32];
  store(hn::Sub(nibbles(b + 2), set32(8)), q);
  scale<32>(q, half_value(b), out);
}

void q4_1(const uint8_t* b, float* out) {
  alignas(32) int8_t q[32];
  store(nibbles(b + 4), q);
  scale_add<32>(q, half_value(b), half_value(b + 2), out);
}

void q5_0(const uint8_t* b, float* out) {
  alignas(32) int8_t q[32];
  store(hn::Sub(hn::Or(nibbles(b + 6), fifth_bits(b + 2)), set32(16)), q);
  scale<32>(q, half_value(b), out);
}

void q5_1(const uint8_t* b, float* out) {
  alignas(32) int8_t q[32];
  store(hn::Or(nibbles(b + 8), fifth_bits(b + 4)), q);
  scale_add<32>(q, half_value(b), half_value(b + 2), out);
}

void q8_0(const uint8_t* b, float* out) {
  scale<32>(reinterpret_cast<const int8_t*>(b + 2), half_value(b), out);
}

void iq4_nl(const uint8_t* b, float* out) {
  alignas(32) int8_t q[32];
  store(look_up(kIq4Values, nibbles(b + 2)), q);
  scale<32>(q, half_value(b), out);
}

void mxfp4(const uint8_t* b, float* out) {
  alignas(32) int8_t q[32];
  store(look_up(kTwiceE2m1, nibbles(b + 1)), q);
  scale<32>(q, half_e8m0(b[0]), out);
}

void q2_k(const uint8_t* b, float* out) {
  alignas(32) int8_t q[256];
  for (int half = 0; half < 2; ++half) {
    const Vec32 bytes = load32(b + 16 + 32 * half);
    store(hn::And(bytes, set32(3)), q + 128 * half);
    store(hn::And(hn::ShiftRight<2>(bytes), set32(3)), q + 128 * half + 32);
    store(hn::And(hn::ShiftRight<4>(bytes), set32(3)), q + 128 * half + 64);
    store(hn::ShiftRight<6>(bytes), q + 128 * half + 96);
  }
  const float d = half_value(b + 80);
  const float dmin = half_value(b + 82);
  for (int g = 0; g < 16; ++g) {
    const float min = dmin * static_cast<float>(b[g] >> 4);
    scale_add<16>(q + 16 * g, d * static_cast<float>(b[g] & 15), -min, out + 16 * g);
  }
}

void q3_k(const uint8_t* b, float* out) {
  alignas(32) int8_t q[256];
  const Vec32 high = load32(b);
  for (int half = 0; half < 2; ++half) {
    const Vec32 bytes = load32(b + 32 + 32 * half);
    const Vec32 low[4] = {hn::And(bytes, set32(3)), hn::And(hn::ShiftRight<2>(bytes), set32(3)),
                          hn::And(hn::ShiftRight<4>(bytes), set32(3)), hn::ShiftRight<6>(bytes)};
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const Vec32 code = hn::Or(low[j], where_bit(high, 4 * half + j, 4));
      store(hn::Sub(code, set32(4)), q + 128 * half + 32 * j);
    }
  }
  const float d = half_value(b + 108);
  for (int g = 0; g < 16; ++g) {
    scale<16>(q + 16 * g, d * static_cast<float>(q3_k_scale(b + 96, g)), out + 16 * g);
  }
}

// The sub-blocks of 32 that Q4_K and Q5_K share: out = (d * scale) * q - dmin * min.
HWY_INLINE void scale_sub_blocks(const uint8_t* b, const int8_t* q, float* out) {
  const float d = half_value(b);
  const float dmin = half_value(b + 2);
  for (int j = 0; j < 8; ++j) {
    const ScaleMin s = scale_min(b + 4, j);
    const float min = dmin * static_cast<float>(s.min);
    scale_add<32>(q + 32 * j, d * static_cast<float>(s.scale), -min, out + 32 * j);
  }
}

void q4_k(const uint8_t* b, float* out) {
  alignas(32) int8_t q[256];
  for (int pair = 0; pair < 4; ++pair) {
    const Vec32 bytes = load32(b + 16 + 32 * pair);
    store(hn::And(bytes, set32(15)), q + 64 * pair);
    store(hn::ShiftRight<4>(bytes), q + 64 * pair + 32);
  }
  scale_sub_blocks(b, q, out);
}

void q5_k(const uint8_t* b, float* out) {
  alignas(32) int8_t q[256];
  const Vec32 high = load32(b + 16);
  for (int pair = 0; pair < 4; ++pair) {
    const Vec32 bytes = load32(b + 48 + 32 * pair);
    store(hn::Or(hn::And(bytes, set32(15)), where_bit(high, 2 * pair, 16)), q + 64 * pair);
    store(hn::Or(hn::ShiftRight<4>(bytes), where_bit(high, 2 * pair + 1, 16)), q + 64 * pair + 32);
  }
  scale_sub_blocks(b, q, out);
}

void q6_k(const uint8_t* b, float* out) {
  alignas(32) int8_t q[256];
  for (int half = 0; half < 2; ++half) {
    const Vec32 first = load32(b + 64 * half);
    const Vec32 second = load32(b + 64 * half + 32);
    const Vec32 high = load32(b + 128 + 32 * half);
    const Vec32 low[4] = {hn::And(first, set32(15)), hn::And(second, set32(15)), hn::ShiftRight<4>(first),
                          hn::ShiftRight<4>(second)};
    const Vec32 top[4] = {hn::ShiftLeft<4>(high), hn::ShiftLeft<2>(high), high, hn::ShiftRight<2>(high)};
#pragma GCC unroll 4
    for (int run = 0; run < 4; ++run) {
      const Vec32 code = hn::Or(low[run], hn::And(top[run], set32(0x30)));
      store(hn::Sub(code, set32(32)), q + 128 * half + 32 * run);
    }
  }
  const float d = half_value(b + 208);
  for (int g = 0; g < 16; ++g) {
    const auto s = static_cast<int8_t>(b[192 + g]);
    scale<16>(q + 16 * g, d * static_cast<float>(s), out + 16 * g);
  }
}

template <void (*kBlock)(const uint8_t* block, float* out), int kElements, int kBytes>
void decode(const std::byte* blocks, int64_t count, float* out) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(blocks);
  for (int64_t i = 0; i < count; ++i) kBlock(bytes + i * kBytes, out + i * kElements);
}

constexpr DecodeBlocks kDecoders[] = {
    decode<q4_0, 32, 18>,    decode<q4_1, 32, 20>,   decode<q5_0, 32, 22>,   decode<q5_1, 32, 24>,
    decode<q8_0, 32, 34>,    decode<iq4_nl, 32, 18>, decode<mxfp4, 32, 17>,  decode<q2_k, 256, 84>,
    decode<q3_k, 256, 110>,  decode<q4_k, 256, 144>, decode<q5_k, 256, 176>, decode<q6_k, 256, 210>,
};
const DecodeBlocks* decoders() { return kDecoders; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ashlar
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ashlar {

HWY_EXPORT(decoders);

namespace {

// Places in kDecoders.
enum Decoder { kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kIq4Nl, kMxfp4, kQ2K, kQ3K, kQ4K, kQ5K, kQ6K };

void decode(Decoder decoder, const std::byte* blocks, int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(decoders)()[decoder](blocks, count, out);
}

}  // namespace

void decode_q4_0_cpu(const std::byte* blocks, int64_t count, float* out) { decode(kQ4_0, blocks, count, out); }
void decode_q4_1_cpu(const std::byte* blocks, int64_t count, float* out) { decode(kQ4_1, blocks, count, out); }
void decode_q5_0_cpu(const std::byte* blocks, int64_t count, float* out) { decode(kQ5_0, blocks, count, out); }
void decode_q5_1_cpu(const std::byte* blocks, int64_t count, float* out) { decode(kQ5_1, blocks, count, out); }
void decode_q8_0_cpu(const std::byte* blocks, int64_t count, float* out) { decode(kQ8_0, blocks, count, out); }
void decode_iq4_nl_cpu(const std::byte* blocks, int64_t count, float* out) { decode(kIq4Nl, blocks, count, out); }
void decode_mxfp4_cpu(const std::byte* blocks, int64_t count, float* out) { decode(kMxfp4, blocks, count, out); }
void decode_q2_k_cpu(const std::byte* blocks, int64_t count, float* out) { decode(kQ2K, blocks, count, out); }
void decode_q3_k_cpu(const std::byte* blocks, int64_t count, float* out) { decode(kQ3K, blocks, count, out); }
void decode_q4_k_cpu(const std::byte* blocks, int64_t count, float* out) { decode(kQ4K, blocks, count, out); }
void decode_q5_k_cpu(const std::byte* blocks, int64_t count, float* out) { decode(kQ5K, blocks, count, out); }
void decode_q6_k_cpu(const std::byte* blocks, int64_t count, float* out) { decode(kQ6K, blocks, count, out); }

}  // namespace ashlar
#endif  // HWY_ONCE
