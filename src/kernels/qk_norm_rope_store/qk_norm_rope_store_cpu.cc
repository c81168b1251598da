// The CPU cell of qk_norm_rope_store: the reference in vectors of head elements, for head sizes
// that are multiples of 32 and pages of f16; else it calls the reference.
//
// Lanes are elements and the 16 chains of the norm are those of row_norm.h, so the bits are the
// same. Keys go to their page one number at a time, since a page holds them transposed; in steps of
// many rows the lines they go to stay in the cache. A row of SmolLM2 (12 heads of 64 to rotate, 384
// numbers to round) takes 0.23 µs against 1.15 of the reference, one of 512 0.27 (AVX-512,
// 2026-11-30).
#include "kernels/kv_pages.h"
#include "kernels/parallel_rows.h"
#include "kernels/qk_norm_rope_store/qk_norm_rope_store_cells.h"
#include "kernels/rms_norm/row_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/qk_norm_rope_store/qk_norm_rope_store_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ashlar {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, 16>;
using Vec = hn::Vec<Floats>;
constexpr Floats kFloats;
constexpr int64_t kLanes = HWY_MIN(hn::MaxLanes(Floats()), 16);

HWY_INLINE Vec load(const float* p) { return hn::LoadU(kFloats, p); }
HWY_INLINE void store(Vec v, float* p) { hn::StoreU(v, kFloats, p); }

HWY_INLINE float inverse_rms_of(const float* x, int64_t size, float eps) {
  constexpr int kVectors = kSumChains / kLanes;
  Vec sums[kVectors];
  for (Vec& sum : sums) sum = hn::Zero(kFloats);
  for (int64_t i = 0; i < size; i += kSumChains) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Vec value = load(x + i + v * kLanes);
      sums[v] = hn::MulAdd(value, value, sums[v]);
    }
  }
  alignas(64) float chains[kSumChains];
  for (int v = 0; v < kVectors; ++v) store(sums[v], chains + v * kLanes);
  return rsqrt(fold_chains(chains) / static_cast<float>(size) + eps);
}

void norm_and_rotate(float* x, int64_t size, const float* weight, float eps, const float* cos_sin) {
  const int64_t half = size / 2;
  const float inverse = weight != nullptr ? inverse_rms_of(x, size, eps) : 1.0f;
  const Vec vector_inverse = hn::Set(kFloats, inverse);
  for (int64_t i = 0; i < half; i += kLanes) {
    const Vec c = load(cos_sin + i);
    const Vec s = load(cos_sin + half + i);
    Vec low = load(x + i);
    Vec high = load(x + half + i);
    if (weight != nullptr) {
      low = hn::Mul(hn::Mul(low, vector_inverse), load(weight + i));
      high = hn::Mul(hn::Mul(high, vector_inverse), load(weight + half + i));
    }
    store(hn::Sub(hn::Mul(low, c), hn::Mul(high, s)), x + i);
    store(hn::Add(hn::Mul(high, c), hn::Mul(low, s)), x + half + i);
  }
}

void round_to_f16(const float* from, int64_t count, F16* to) {
  const hn::Rebind<hwy::float16_t, Floats> half;
  for (int64_t i = 0; i < count; i += kLanes)
    hn::StoreU(hn::DemoteTo(half, load(from + i)), half, reinterpret_cast<hwy::float16_t*>(to + i));
}

void store_row(const QkNormRopeStoreArgs& args, int64_t t) {
  const StorePlace place(args, t);
  if (place.padding) return;
  const int64_t kv_heads = args.pages.dim(1) / 2;
  const int64_t page_positions = args.pages.dim(2);
  const int64_t size = args.pages.dim(3);
  const int64_t heads = args.qkv.dim(1) / size - 2 * kv_heads;
  const float* q_norm = args.q_norm.empty() ? nullptr : args.q_norm.as<float>();
  const float* k_norm = args.k_norm.empty() ? nullptr : args.k_norm.as<float>();
  float* q = args.qkv.row<float>(t);
  for (int64_t h = 0; h < heads; ++h)
    norm_and_rotate(q + h * size, size, q_norm, args.eps, place.cos_sin);
  const KvPages<F16> pages(args.pages);
  F16 rounded[kMaxVectorHead];
  for (int64_t g = 0; g < kv_heads; ++g) {
    float* k = q + (heads + g) * size;
    norm_and_rotate(k, size, k_norm, args.eps, place.cos_sin);
    round_to_f16(k, size, rounded);
    F16* keys = pages.keys(place.page, g) + place.offset;
    for (int64_t i = 0; i < size; ++i) keys[i * page_positions] = rounded[i];
    round_to_f16(q + (heads + kv_heads + g) * size, size,
                 pages.values(place.page, g) + place.offset * size);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ashlar
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ashlar {

namespace {

HWY_EXPORT(store_row);

}  // namespace

void qk_norm_rope_store_cpu(Stream& stream, const QkNormRopeStoreArgs& args) {
  const int64_t size = args.pages.dim(3);
  if (size % 32 != 0 || size > kMaxVectorHead || args.pages.dtype() != DType::kF16)
    return qk_norm_rope_store_reference(stream, args);
  const auto store = HWY_DYNAMIC_DISPATCH(store_row);
  parallel_rows(stream, args.qkv.rows(), [&](int64_t t) { store(args, t); });
}

}  // namespace ashlar
#endif  // HWY_ONCE
