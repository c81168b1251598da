// The softmax of attention on the CPU, in vectors of positions and vectors of queries.
//
// A query costs about 140 cycles a tile beside 770 for its products at heads of 64 (AVX-512,
// 2026-11-30), so all maxima come first and the weights of many queries then overlap: one query
// after the other, each waiting for its maximum, took 170.
#include "kernels/attention/attention_softmax.h"

#include "base/align.h"
#include "kernels/math/activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_softmax_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ashlar {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, 16>;
using Ints = hn::RebindToSigned<Floats>;
using Vec = hn::Vec<Floats>;
constexpr Floats kFloats;
constexpr Ints kInts;
constexpr int64_t kLanes = HWY_MIN(hn::MaxLanes(Floats()), 16);

HWY_INLINE Vec load(const float* p) { return hn::LoadU(kFloats, p); }
HWY_INLINE void store(Vec v, float* p) { hn::StoreU(v, kFloats, p); }
HWY_INLINE Vec set(float v) { return hn::Set(kFloats, v); }

HWY_INLINE hn::Vec<Floats> power_of_two(hn::Vec<Ints> n) {
  return hn::BitCast(kFloats, hn::ShiftLeft<23>(hn::Add(n, hn::Set(kInts, 127))));
}

// p * 2^n for a whole n, rounded once. AVX-512 has that as an instruction (of 26 operations of an
// exp2 it saves eight, and 4 % of the time of attention); the template keeps it from other targets.
template <class V>
HWY_INLINE V scale_by_power(V p, V n) {
  if constexpr (sizeof(V) == 64) {
    return V{_mm512_scalef_ps(p.raw, n.raw)};
  } else {
    const auto whole = hn::ConvertTo(kInts, n);
    const auto half = hn::ShiftRight<1>(whole);
    return hn::Mul(hn::Mul(p, power_of_two(half)), power_of_two(hn::Sub(whole, half)));
  }
}

// exp2 of activation.h, operation by operation. Max and Min give their second argument where there
// is a NaN, as clamp does.
HWY_INLINE Vec exp2(Vec x) {
  const Vec shift = set(math::kRoundShift);
  x = hn::Min(set(129.0f), hn::Max(set(-152.0f), x));
  const Vec n = hn::Sub(hn::Add(x, shift), shift);
  const Vec r = hn::Mul(hn::Sub(x, n), set(0x1.62e430p-1f));
  Vec p = set(0x1.6a23c6p-10f);
  p = hn::MulAdd(p, r, set(0x1.123a22p-7f));
  p = hn::MulAdd(p, r, set(0x1.5558f4p-5f));
  p = hn::MulAdd(p, r, set(0x1.555492p-3f));
  p = hn::MulAdd(p, r, set(0x1.fffffcp-2f));
  p = hn::MulAdd(p, r, set(1.0f));
  p = hn::MulAdd(p, r, set(1.0f));
  return scale_by_power(p, n);
}

// fold_chains of row_norm.h: 16 to 8 to 4 to 2 to 1, by halves.
template <class D>
HWY_INLINE float fold_halves(hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    return hn::GetLane(v);
  } else {
    const hn::Half<D> half;
    return fold_halves<hn::Half<D>>(hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}
template <int kCount>
HWY_INLINE float fold(Vec* sums) {
  for (int half = kCount / 2; half > 0; half /= 2) {
    for (int v = 0; v < half; ++v) sums[v] = hn::Add(sums[v], sums[v + half]);
  }
  return fold_halves<Floats>(sums[0]);
}

// Scores from l on; -inf for what the row does not see. Writing -inf before the first look instead
// would make every vector load wait for single stores.
HWY_INLINE Vec seen_scores(const float* scores, int64_t l, KeyRange visible) {
  const Vec v = load(scores + l);
  if (l >= visible.begin && l + kLanes <= visible.end) [[likely]]
    return v;
  const auto lanes = [&](int64_t end) {
    return hn::FirstN(kFloats, static_cast<size_t>(HWY_MIN(HWY_MAX(end - l, 0), kLanes)));
  };
  const auto seen = hn::AndNot(lanes(visible.begin), lanes(visible.end));
  return hn::IfThenElse(seen, v, set(-std::numeric_limits<float>::infinity()));
}

HWY_INLINE float largest_score(const float* scores, KeyRange visible) {
  Vec maximum = set(-std::numeric_limits<float>::infinity());
  for (int64_t l = visible.begin / kLanes * kLanes; l < visible.end; l += kLanes)
    maximum = hn::Max(seen_scores(scores, l, visible), maximum);
  return hn::GetLane(hn::MaxOfLanes(kFloats, maximum));
}

HWY_INLINE float weigh_scores(float* scores, KeyRange visible, float factor, float max) {
  constexpr int kVectors = kSumChains / kLanes;
  const Vec vector_factor = set(factor);
  const Vec minus_max = set(-max);
  Vec sums[kVectors];
  for (Vec& sum : sums) sum = hn::Zero(kFloats);
  const int64_t end = round_up(visible.end, kSumChains);
  for (int64_t l = visible.begin / kSumChains * kSumChains; l < end; l += kSumChains) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) {
      const int64_t at = l + v * kLanes;
      const Vec p = exp2(hn::MulAdd(seen_scores(scores, at, visible), vector_factor, minus_max));
      store(p, scores + at);
      sums[v] = hn::Add(sums[v], p);
    }
  }
  return fold<kVectors>(sums);
}

// The part of merge_tile that is one number a query.
HWY_INLINE void merge_states(const QueryStates& tile, int64_t queries, QueryStates& states,
                             QueryMerges& merges) {
  for (int64_t i = 0; i < queries; i += kLanes) {
    const Vec tile_max = load(tile.maxima + i);
    const Vec tile_sum = load(tile.sums + i);
    const Vec old_max = load(states.maxima + i);
    const Vec old_sum = load(states.sums + i);
    const Vec max = hn::Max(tile_max, old_max);
    const Vec keep = exp2(hn::Sub(old_max, max));
    const Vec add = exp2(hn::Sub(tile_max, max));
    const Vec sum = hn::Add(hn::Mul(old_sum, keep), hn::Mul(tile_sum, add));
    const auto unseen = hn::Eq(tile_sum, hn::Zero(kFloats));
    const auto first = hn::Eq(old_sum, hn::Zero(kFloats));
    store(keep, merges.keep + i);
    store(add, merges.add + i);
    store(hn::IfThenElse(unseen, old_max, hn::IfThenElse(first, tile_max, max)), states.maxima + i);
    store(hn::IfThenElse(unseen, old_sum, hn::IfThenElse(first, tile_sum, sum)), states.sums + i);
  }
}

void weigh_queries(float* scores, const KeyRange* visible, int64_t queries, float factor,
                   QueryStates& states, QueryMerges& merges) {
  QueryStates tile;
  for (int64_t i = 0; i < queries; ++i) {
    if (visible[i].begin < visible[i].end)
      tile.maxima[i] = largest_score(scores + i * kAttentionTile, visible[i]) * factor;
  }
  for (int64_t i = 0; i < queries; ++i) {
    merges.kind[i] = TileMerge::kNothing;
    if (visible[i].begin >= visible[i].end) continue;
    tile.sums[i] = weigh_scores(scores + i * kAttentionTile, visible[i], factor, tile.maxima[i]);
    merges.kind[i] = states.sums[i] == 0.0f ? TileMerge::kFirst : TileMerge::kAdd;
  }
  merge_states(tile, queries, states, merges);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ashlar
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ashlar {

namespace {

HWY_EXPORT(weigh_queries);

}  // namespace

void weigh_tile(float* scores, const KeyRange* visible, int64_t queries, float factor,
                QueryStates& states, QueryMerges& merges) {
  HWY_DYNAMIC_DISPATCH(weigh_queries)(scores, visible, queries, factor, states, merges);
}

}  // namespace ashlar
#endif  // HWY_ONCE
