// Vector decoders of all GGUF blocks. The bits are those of the truth: the same product and sum,
// rounded apart; x - y is computed as x + (-y). Nothing here depends on the vector width.
//
// Blocks of plain nibbles are widened at once; with 16 lanes their 16 possible values are computed
// and then looked up, which halves the work. Other blocks are unpacked to signed bytes first, 32 at
// a time, and then scaled. Scales are made f32 together, those of 16 blocks or of one block of 256:
// one at a time they cost as much as the weights.
#include "formats/gguf_blocks/block_parts.h"
#include "kernels/packed/packed_rows.h"

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
using Bytes32 = hn::FixedTag<uint8_t, 32>;
using Vec32 = hn::Vec<Bytes32>;
constexpr Floats kFloats;
constexpr Bytes32 kBytes32;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Floats()));

using Ints = hn::RebindToSigned<Floats>;
using VecInts = hn::Vec<Ints>;
constexpr Ints kInts;

struct Halves {
  float v[4];
};

// Four f16 values. Fields are read with their neighbours, always inside the block.
HWY_INLINE Halves halves_at(const uint8_t* bytes) {
  const hn::FixedTag<float, 4> floats;
  const hn::Rebind<hwy::float16_t, decltype(floats)> halves;
  Halves values;
  hn::StoreU(
      hn::PromoteTo(floats, hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(bytes))),
      floats, values.v);
  return values;
}

// value(code) = d * code, and d * code + m.
struct Scale {
  float d;
  HWY_INLINE hn::Vec<Floats> operator()(VecInts codes) const {
    return hn::Mul(hn::Set(kFloats, d), hn::ConvertTo(kFloats, codes));
  }
};
struct ScaleAdd {
  float d;
  float m;
  HWY_INLINE hn::Vec<Floats> operator()(VecInts codes) const {
    return hn::Add(hn::Mul(hn::Set(kFloats, d), hn::ConvertTo(kFloats, codes)),
                   hn::Set(kFloats, m));
  }
};
// d * (code - kMiddle)
template <int kMiddle>
struct ScaleShifted {
  float d;
  HWY_INLINE hn::Vec<Floats> operator()(VecInts codes) const {
    return Scale{d}(hn::Sub(codes, hn::Set(kInts, kMiddle)));
  }
};
// d * table[code]
struct ScaleEntry {
  float d;
  const int8_t* table;
  HWY_INLINE hn::Vec<Floats> operator()(VecInts codes) const {
    const hn::Repartition<uint8_t, Ints> bytes;
    const auto entries = hn::LoadDup128(bytes, reinterpret_cast<const uint8_t*>(table));
    // The entry lands in the lowest byte; the shifts sign-extend it.
    const auto found = hn::BitCast(kInts, hn::TableLookupBytes(entries, hn::BitCast(bytes, codes)));
    return Scale{d}(hn::ShiftRight<24>(hn::ShiftLeft<24>(found)));
  }
};

// out[i] = value(q[i]) for kCount signed bytes.
template <int kCount, class Value>
HWY_INLINE void widen(const int8_t* q, const Value& value, float* out) {
  const hn::Rebind<int8_t, Floats> bytes;
#pragma GCC unroll 4
  for (int i = 0; i < kCount; i += kLanes) {
    hn::StoreU(value(hn::PromoteTo(kInts, hn::LoadU(bytes, q + i))), kFloats, out + i);
  }
}

// value(codes) for codes below 16. With 16 lanes all values are computed once and looked up.
template <class Value>
class FourBit {
 public:
  HWY_INLINE explicit FourBit(const Value& value)
      : value_(value), all_(value(hn::Iota(kInts, 0))) {}
  HWY_INLINE hn::Vec<Floats> operator()(VecInts codes) const {
    if constexpr (kLanes == 16) {
      return hn::TableLookupLanes(all_, hn::IndicesFromVec(kFloats, codes));
    } else {
      return value_(codes);
    }
  }

 private:
  Value value_;
  hn::Vec<Floats> all_;
};

// low[i] = low_value(low half of q[i]) and high[i] = high_value(high half) for kCount bytes.
template <int kCount, class Value>
HWY_INLINE void widen_nibbles(const uint8_t* q, const Value& low_value, const Value& high_value,
                              float* low, float* high) {
  const hn::Rebind<uint8_t, Floats> bytes;
  const VecInts mask = hn::Set(kInts, 15);
#pragma GCC unroll 4
  for (int i = 0; i < kCount; i += kLanes) {
    const VecInts both = hn::PromoteTo(kInts, hn::LoadU(bytes, q + i));
    hn::StoreU(low_value(hn::And(both, mask)), kFloats, low + i);
    hn::StoreU(high_value(hn::ShiftRight<4>(both)), kFloats, high + i);
  }
}

// A block of 32 nibbles with one value function.
template <class Value>
HWY_INLINE void widen_block(const uint8_t* q, const Value& value, float* out) {
  const FourBit<Value> of_code(value);
  widen_nibbles<16>(q, of_code, of_code, out, out + 16);
}

// A block of 32 codes of five bits: nibbles, and the fifth bit of element e as bit e of four bytes.
template <class Value>
HWY_INLINE void widen_fives(const uint8_t* q, const uint8_t* fifth, const Value& value,
                            float* out) {
  const hn::Rebind<uint8_t, Floats> bytes;
  const VecInts mask = hn::Set(kInts, 15);
  const VecInts bit = hn::Set(kInts, 16);
#pragma GCC unroll 2
  for (int i = 0; i < 16; i += kLanes) {
    const VecInts both = hn::PromoteTo(kInts, hn::LoadU(bytes, q + i));
    const VecInts low = hn::And(both, mask);
    const VecInts high = hn::ShiftRight<4>(both);
    const auto in_low = hn::LoadMaskBits(kInts, fifth + i / 8);
    const auto in_high = hn::LoadMaskBits(kInts, fifth + 2 + i / 8);
    hn::StoreU(value(hn::IfThenElse(in_low, hn::Or(low, bit), low)), kFloats, out + i);
    hn::StoreU(value(hn::IfThenElse(in_high, hn::Or(high, bit), high)), kFloats, out + 16 + i);
  }
}

HWY_INLINE void store(Vec32 codes, int8_t* q) {
  hn::StoreU(codes, kBytes32, reinterpret_cast<uint8_t*>(q));
}
HWY_INLINE Vec32 load32(const uint8_t* bytes) { return hn::LoadU(kBytes32, bytes); }
HWY_INLINE Vec32 set32(int value) { return hn::Set(kBytes32, static_cast<uint8_t>(value)); }

// `value` where bit `bit` of the element's byte is set.
HWY_INLINE Vec32 where_bit(Vec32 bytes, int bit, int value) {
  return hn::IfThenElseZero(hn::TestBit(bytes, set32(1 << bit)), set32(value));
}

// Blocks of 32. d and m are the f16 numbers at bytes 0 and 2, whether the block has them or not.
HWY_INLINE void q4_0(const uint8_t* b, float d, float, float* out) {
  widen_block(b + 2, ScaleShifted<8>{d}, out);
}
HWY_INLINE void q4_1(const uint8_t* b, float d, float m, float* out) {
  widen_block(b + 4, ScaleAdd{d, m}, out);
}
HWY_INLINE void q5_0(const uint8_t* b, float d, float, float* out) {
  widen_fives(b + 6, b + 2, ScaleShifted<16>{d}, out);
}
HWY_INLINE void q5_1(const uint8_t* b, float d, float m, float* out) {
  widen_fives(b + 8, b + 4, ScaleAdd{d, m}, out);
}
HWY_INLINE void q8_0(const uint8_t* b, float d, float, float* out) {
  widen<32>(reinterpret_cast<const int8_t*>(b + 2), Scale{d}, out);
}
HWY_INLINE void iq4_nl(const uint8_t* b, float d, float, float* out) {
  widen_block(b + 2, ScaleEntry{d, kIq4Values}, out);
}
HWY_INLINE void mxfp4(const uint8_t* b, float, float, float* out) {
  widen_block(b + 1, ScaleEntry{half_e8m0(b[0]), kTwiceE2m1}, out);
}

template <void (*kBlock)(const uint8_t* b, float d, float m, float* out), int kBytes>
void decode_32(const std::byte* blocks, int64_t count, float* out) {
  constexpr int kAtOnce = 16;
  const auto* b = reinterpret_cast<const uint8_t*>(blocks);
  for (int64_t begin = 0; begin < count; begin += kAtOnce) {
    const auto some = static_cast<int>(HWY_MIN(count - begin, kAtOnce));
    // A pass of its own: the stores are done when the numbers are spread from memory, which costs
    // nothing then.
    Halves fields[kAtOnce];
    for (int i = 0; i < some; ++i) fields[i] = halves_at(b + i * kBytes);
    for (int i = 0; i < some; ++i, b += kBytes, out += 32)
      kBlock(b, fields[i].v[0], fields[i].v[1], out);
  }
}

// Sixteen integer scales as f32 factors.
struct Scales {
  alignas(64) float v[16];
};
HWY_INLINE Scales scales_of(const int8_t* integers, float d) {
  Scales scales;
  widen<16>(integers, Scale{d}, scales.v);
  return scales;
}
// Eight of them, from the bytes of an integer. Lanes beyond hold anything.
HWY_INLINE Scales scales_of(uint64_t integers, float d) {
  const hn::Rebind<uint8_t, Floats> bytes;
  const hn::Repartition<uint64_t, decltype(bytes)> words;
  Scales scales;
  const auto codes = hn::PromoteTo(kInts, hn::BitCast(bytes, hn::Set(words, integers)));
  hn::StoreU(Scale{d}(codes), kFloats, scales.v);
  return scales;
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
  const Halves fields = halves_at(b + 76);  // d @80, dmin @82
  Scales scales, mins;
  widen_nibbles<16>(b, Scale{fields.v[2]}, Scale{-fields.v[3]}, scales.v, mins.v);
  for (int g = 0; g < 16; ++g)
    widen<16>(q + 16 * g, ScaleAdd{scales.v[g], mins.v[g]}, out + 16 * g);
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
  alignas(16) int8_t integers[16];
  q3_k_scales(b + 96, integers);
  const Scales scales = scales_of(integers, halves_at(b + 102).v[3]);  // d @108
  for (int g = 0; g < 16; ++g) widen<16>(q + 16 * g, Scale{scales.v[g]}, out + 16 * g);
}

// The factors of the sub-blocks of Q4_K and Q5_K: out = (d * scale) * q + (-dmin * min).
struct SubBlocks {
  Scales scales;
  Scales mins;
  HWY_INLINE explicit SubBlocks(const uint8_t* b) {
    const PackedScaleMins packed = packed_scale_mins(b + 4);
    const Halves fields = halves_at(b);
    scales = scales_of(packed.scales, fields.v[0]);
    mins = scales_of(packed.mins, -fields.v[1]);
  }
  HWY_INLINE ScaleAdd operator[](int j) const { return {scales.v[j], mins.v[j]}; }
};

void q4_k(const uint8_t* b, float* out) {
  const SubBlocks sub_blocks(b);
  for (int pair = 0; pair < 4; ++pair, out += 64) {
    const uint8_t* q = b + 16 + 32 * pair;
    const FourBit low(sub_blocks[2 * pair]);
    const FourBit high(sub_blocks[2 * pair + 1]);
    widen_nibbles<32>(q, low, high, out, out + 32);
  }
}

void q5_k(const uint8_t* b, float* out) {
  alignas(32) int8_t q[256];
  const Vec32 high = load32(b + 16);
  for (int pair = 0; pair < 4; ++pair) {
    const Vec32 bytes = load32(b + 48 + 32 * pair);
    store(hn::Or(hn::And(bytes, set32(15)), where_bit(high, 2 * pair, 16)), q + 64 * pair);
    store(hn::Or(hn::ShiftRight<4>(bytes), where_bit(high, 2 * pair + 1, 16)), q + 64 * pair + 32);
  }
  const SubBlocks sub_blocks(b);
  for (int j = 0; j < 8; ++j) widen<32>(q + 32 * j, sub_blocks[j], out + 32 * j);
}

void q6_k(const uint8_t* b, float* out) {
  alignas(32) int8_t q[256];
  for (int half = 0; half < 2; ++half) {
    const Vec32 first = load32(b + 64 * half);
    const Vec32 second = load32(b + 64 * half + 32);
    const Vec32 high = load32(b + 128 + 32 * half);
    const Vec32 low[4] = {hn::And(first, set32(15)), hn::And(second, set32(15)),
                          hn::ShiftRight<4>(first), hn::ShiftRight<4>(second)};
    const Vec32 top[4] = {hn::ShiftLeft<4>(high), hn::ShiftLeft<2>(high), high,
                          hn::ShiftRight<2>(high)};
#pragma GCC unroll 4
    for (int run = 0; run < 4; ++run) {
      const Vec32 code = hn::Or(low[run], hn::And(top[run], set32(0x30)));
      store(hn::Sub(code, set32(32)), q + 128 * half + 32 * run);
    }
  }
  const auto* integers = reinterpret_cast<const int8_t*>(b + 192);
  const Scales scales = scales_of(integers, halves_at(b + 202).v[3]);  // d @208
  for (int g = 0; g < 16; ++g) widen<16>(q + 16 * g, Scale{scales.v[g]}, out + 16 * g);
}

template <void (*kBlock)(const uint8_t* block, float* out), int kBytes>
void decode_256(const std::byte* blocks, int64_t count, float* out) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(blocks);
  for (int64_t i = 0; i < count; ++i) kBlock(bytes + i * kBytes, out + i * 256);
}

// By BlockKind.
constexpr DecodeBlocks kDecoders[] = {
    decode_32<q4_0, 18>,   decode_32<q4_1, 20>,   decode_32<q5_0, 22>,   decode_32<q5_1, 24>,
    decode_32<q8_0, 34>,   decode_32<iq4_nl, 18>, decode_32<mxfp4, 17>,  decode_256<q2_k, 84>,
    decode_256<q3_k, 110>, decode_256<q4_k, 144>, decode_256<q5_k, 176>, decode_256<q6_k, 210>,
};
const DecodeBlocks* decoders() { return kDecoders; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ashlar
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ashlar {

HWY_EXPORT(decoders);

void decode_vector(BlockKind kind, const std::byte* blocks, int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(decoders)()[static_cast<int>(kind)](blocks, count, out);
}

}  // namespace ashlar
#endif  // HWY_ONCE
