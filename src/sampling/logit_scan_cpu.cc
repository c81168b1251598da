// The passes for each vector width. Loops have the length of one vector: arrays of sixteen would be
// spilled with AVX2 (262,144 weights: AVX2 1.2 ms with sixteen, 0.85 with eight; AVX-512 0.2;
// 2026-11-30, two busy Xeon cores).
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
    for (int64_t l = 0; l < kLanes; ++l) weights[l] = exp2((x[i + l] - max) * scale);
    for (int64_t l = 0; l < kLanes; ++l) sums[l] += fixed_weight(weights[l]);
  }
  uint64_t sum = 0;
  for (uint64_t s : sums) sum += s;
  for (; i < count; ++i) sum += logit_weight(x[i], max, scale);
  return sum;
}

void weights_of_logits(const float* x, int64_t count, float max, float scale, uint64_t* weights) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    float lanes[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = exp2((x[i + l] - max) * scale);
    for (int64_t l = 0; l < kLanes; ++l) weights[i + l] = fixed_weight(lanes[l]);
  }
  for (; i < count; ++i) weights[i] = logit_weight(x[i], max, scale);
}

int64_t find_at_least(const float* x, int64_t count, float least, int32_t* to) {
  const auto border = hn::Set(kFloats, least);
  int64_t found = 0;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto above = hn::Ge(hn::LoadU(kFloats, x + i), border);
    if (hn::AllFalse(kFloats, above)) continue;
    for (int64_t l = 0; l < kLanes; ++l) {
      to[found] = static_cast<int32_t>(i + l);
      found += x[i + l] >= least ? 1 : 0;
    }
  }
  for (; i < count; ++i) {
    if (x[i] >= least) to[found++] = static_cast<int32_t>(i);
  }
  return found;
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

int64_t find_at_least(const float* x, int64_t count, float least, int32_t* to) {
  return HWY_DYNAMIC_DISPATCH(find_at_least)(x, count, least, to);
}

}  // namespace ashlar
#endif  // HWY_ONCE
