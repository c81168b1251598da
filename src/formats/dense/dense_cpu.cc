// F16 and BF16 to f32 in vectors; what is left over goes through the truth.
// The conversions do not depend on the processor's flush-to-zero setting.
#include "formats/dense/dense.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/dense/dense_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ashlar {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, 16>;
constexpr Floats kFloats;
constexpr int64_t kLanes = hn::MaxLanes(Floats());

void decode_f16(const std::byte* values, int64_t count, float* out) {
  const hn::Rebind<hwy::float16_t, Floats> halves;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto half = hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(values + 2 * i));
    hn::StoreU(hn::PromoteTo(kFloats, half), kFloats, out + i);
  }
  f16_rows.truth(values + 2 * i, count - i, out + i);
}

void decode_bf16(const std::byte* values, int64_t count, float* out) {
  const hn::Rebind<uint16_t, Floats> halves;
  const hn::Rebind<uint32_t, Floats> words;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto half = hn::LoadU(halves, reinterpret_cast<const uint16_t*>(values + 2 * i));
    hn::StoreU(hn::BitCast(kFloats, hn::ShiftLeft<16>(hn::PromoteTo(words, half))), kFloats,
               out + i);
  }
  bf16_rows.truth(values + 2 * i, count - i, out + i);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ashlar
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ashlar {

HWY_EXPORT(decode_f16);
HWY_EXPORT(decode_bf16);

void decode_f16_cpu(const std::byte* values, int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(decode_f16)(values, count, out);
}
void decode_bf16_cpu(const std::byte* values, int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(decode_bf16)(values, count, out);
}

}  // namespace ashlar
#endif  // HWY_ONCE
