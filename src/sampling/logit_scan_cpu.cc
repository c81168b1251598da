// The passes for each vector width. Loops have the length of one vector: arrays of sixteen would be
// spilled with AVX2. One row of 262,144 logits on one core of a Xeon with AVX-512 (2026-11-30,
// after the exponential without subnormals, and before it): maxima 0.03 ms, weights 0.09 (0.16),
// top-p 0.95 of a peaked row in all 0.30 (0.52), of a flat one 2.7 (3.4).
#include "sampling/logit_scan.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampling/logit_scan_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ashlar {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, 16>;
constexpr Floats kFloats;
constexpr int64_t kLanes = HWY_MIN(hn::MaxLanes(Floats()), 16);

float max_of_logits(const float* x, int64_t count, bool& sound) {
  const auto infinity = hn::Set(kFloats, std::numeric_limits<float>::infinity());
  auto max = hn::Neg(infinity);
  auto good = hn::FirstN(kFloats, kLanes);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto v = hn::LoadU(kFloats, x + i);
    good = hn::And(good, hn::Lt(v, infinity));  // false for NaN, too
    max = hn::Max(max, v);
  }
  sound = sound && hn::AllTrue(kFloats, good);
  float result = hn::GetLane(hn::MaxOfLanes(kFloats, max));
  for (; i < count; ++i) {
    sound = sound && x[i] < std::numeric_limits<float>::infinity();
    result = std::max(result, x[i]);
  }
  return result;
}

uint64_t sum_of_weights(const float* x, int64_t count, float max, float scale) {
  uint64_t sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    float weights[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) weights[l] = exp2_of_weight((x[i + l] - max) * scale);
    for (int64_t l = 0; l < kLanes; ++l) sums[l] += offset_weight(weights[l]);
  }
  uint64_t sum = 0;
  for (uint64_t s : sums) sum += s;
  sum -= static_cast<uint64_t>(i) * kWeightOffset;
  for (; i < count; ++i) sum += logit_weight(x[i], max, scale);
  return sum;
}

void weights_of_logits(const float* x, int64_t count, float max, float scale, uint64_t* weights) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    float lanes[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = exp2_of_weight((x[i + l] - max) * scale);
    for (int64_t l = 0; l < kLanes; ++l) weights[i + l] = offset_weight(lanes[l]) - kWeightOffset;
  }
  for (; i < count; ++i) weights[i] = logit_weight(x[i], max, scale);
}

int64_t find_at_least(const float* x, int64_t count, float least, int32_t* at, float* found) {
  const hn::RebindToSigned<decltype(kFloats)> ints;
  const auto border = hn::Set(kFloats, least);
  int64_t number = 0;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto v = hn::LoadU(kFloats, x + i);
    const auto above = hn::Ge(v, border);
    if (hn::AllFalse(kFloats, above)) continue;
    hn::CompressStore(v, above, kFloats, found + number);
    number += static_cast<int64_t>(hn::CompressStore(
        hn::Iota(ints, static_cast<int32_t>(i)), hn::RebindMask(ints, above), ints, at + number));
  }
  for (; i < count; ++i) {
    if (x[i] < least) continue;
    at[number] = static_cast<int32_t>(i);
    found[number++] = x[i];
  }
  return number;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ashlar
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ashlar {

namespace {

HWY_EXPORT(max_of_logits);
HWY_EXPORT(sum_of_weights);
HWY_EXPORT(weights_of_logits);
HWY_EXPORT(find_at_least);

}  // namespace

float max_of_logits(const float* x, int64_t count, bool& sound) {
  return HWY_DYNAMIC_DISPATCH(max_of_logits)(x, count, sound);
}

uint64_t sum_of_weights(const float* x, int64_t count, float max, float scale) {
  return HWY_DYNAMIC_DISPATCH(sum_of_weights)(x, count, max, scale);
}

void weights_of_logits(const float* x, int64_t count, float max, float scale, uint64_t* weights) {
  HWY_DYNAMIC_DISPATCH(weights_of_logits)(x, count, max, scale, weights);
}

int64_t find_at_least(const float* x, int64_t count, float least, int32_t* at, float* found) {
  return HWY_DYNAMIC_DISPATCH(find_at_least)(x, count, least, at, found);
}

}  // namespace ashlar
#endif  // HWY_ONCE
