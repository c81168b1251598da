// The CPU cell of attention: both products run as matrix products over keys and values that were
// widened to f32 once for all queries of a part.
//
//   panel [K 32] keys of 32 positions      scores [96 128] = queries x panels, 4 panels a tile
//   panel [128 32] values, 32 elements     output [12 32]  = weights x panel, merged into [96 K]
//
// A part (attention_plan.h) is up to 96 queries that share a key head: heads of a group and, in
// prefill, neighbouring rows. Twelve queries and two vectors of outputs (six with AVX2) stay in
// registers, so one FMA chain an output hides the latency of the others; the panel (8 or 16 KiB at
// heads of 64) stays in the first level of the cache. Lanes are outputs, never parts of a sum, so
// the chains are those of the reference and the bits are the same for every instruction set and
// every cut. Scores are formed for whole panels; what a row may not see is then ignored, and output
// chains stop at the row's own position: the columns that only some of twelve rows see are added
// row by row.
#include "kernels/attention/attention.h"

#include <atomic>
#include <memory>

#include "base/align.h"
#include "kernels/attention/attention_cells.h"
#include "kernels/attention/attention_parts.h"
#include "kernels/attention/attention_plan.h"
#include "kernels/kv_pages.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_cpu.cc"
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
constexpr int64_t kPanel = kAttentionPanel;
constexpr int kGroup = kLanes == 16 ? 12 : 6;  // queries in registers; divides 12

HWY_INLINE Vec load(const float* p) { return hn::LoadU(kFloats, p); }
HWY_INLINE Vec load(const F16* p) {
  const hn::Rebind<hwy::float16_t, Floats> half;
  return hn::PromoteTo(kFloats, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(p)));
}
HWY_INLINE Vec load(const BF16* p) {
  const hn::Rebind<hwy::bfloat16_t, Floats> half;
  return hn::PromoteTo(kFloats, hn::LoadU(half, reinterpret_cast<const hwy::bfloat16_t*>(p)));
}
HWY_INLINE void store(Vec v, float* p) { hn::StoreU(v, kFloats, p); }
HWY_INLINE Vec set(float v) { return hn::Set(kFloats, v); }

// power_of_two and exp2 of activation.h, operation by operation. Max and Min give their second
// argument where there is a NaN, as clamp does.
HWY_INLINE Vec power_of_two(hn::Vec<Ints> n) {
  return hn::BitCast(kFloats, hn::ShiftLeft<23>(hn::Add(n, hn::Set(kInts, 127))));
}
HWY_INLINE Vec exp2(Vec x) {
  const Vec shift = set(math::kRoundShift);
  x = hn::Min(set(129.0f), hn::Max(set(-152.0f), x));
  const Vec shifted = hn::Add(x, shift);
  const auto n = hn::Sub(hn::BitCast(kInts, shifted), hn::BitCast(kInts, shift));
  const Vec r = hn::Mul(hn::Sub(x, hn::Sub(shifted, shift)), set(0x1.62e430p-1f));
  Vec p = set(0x1.6a23c6p-10f);
  p = hn::MulAdd(p, r, set(0x1.123a22p-7f));
  p = hn::MulAdd(p, r, set(0x1.5558f4p-5f));
  p = hn::MulAdd(p, r, set(0x1.555492p-3f));
  p = hn::MulAdd(p, r, set(0x1.fffffcp-2f));
  p = hn::MulAdd(p, r, set(1.0f));
  p = hn::MulAdd(p, r, set(1.0f));
  const auto half = hn::ShiftRight<1>(n);
  return hn::Mul(hn::Mul(p, power_of_two(half)), power_of_two(hn::Sub(n, half)));
}

// out[i][c] = (add ? out[i][c] : 0) + weight(i, 0) panel[0][c] + weight(i, 1) panel[1][c] + ...,
// one FMA chain, for c < 32. Scores take packed queries [depth kCount] and write rows of a tile;
// outputs take such rows and write rows of a panel.
template <int kCount, bool kScores>
void product(const float* weights, const float* panel, int64_t depth, bool add, float* out) {
  constexpr int64_t kFromQuery = kScores ? 1 : kAttentionTile;
  constexpr int64_t kFromDepth = kScores ? kCount : 1;
  constexpr int64_t kToQuery = kScores ? kAttentionTile : kPanel;
  for (int64_t c = 0; c < kPanel; c += 2 * kLanes) {
    Vec low[kCount];
    Vec high[kCount];
#pragma GCC unroll 12
    for (int i = 0; i < kCount; ++i) {
      low[i] = add ? load(out + i * kToQuery + c) : hn::Zero(kFloats);
      high[i] = add ? load(out + i * kToQuery + c + kLanes) : hn::Zero(kFloats);
    }
    const float* weight = weights;
    const float* column = panel + c;
    for (int64_t d = 0; d < depth; ++d, weight += kFromDepth, column += kPanel) {
      const Vec column_low = load(column);
      const Vec column_high = load(column + kLanes);
#pragma GCC unroll 12
      for (int i = 0; i < kCount; ++i) {
        const Vec w = set(weight[i * kFromQuery]);
        low[i] = hn::MulAdd(w, column_low, low[i]);
        high[i] = hn::MulAdd(w, column_high, high[i]);
      }
    }
#pragma GCC unroll 12
    for (int i = 0; i < kCount; ++i) {
      store(low[i], out + i * kToQuery + c);
      store(high[i], out + i * kToQuery + c + kLanes);
    }
  }
}

using Product = void (*)(const float*, const float*, int64_t, bool, float*);
template <bool kScores>
constexpr Product kProducts[] = {nullptr,
                                 product<1, kScores>,
                                 product<2, kScores>,
                                 product<3, kScores>,
                                 product<4, kScores>,
                                 product<5, kScores>,
                                 product<6, kScores>,
                                 product<HWY_MIN(kGroup, 7), kScores>,
                                 product<HWY_MIN(kGroup, 8), kScores>,
                                 product<HWY_MIN(kGroup, 9), kScores>,
                                 product<HWY_MIN(kGroup, 10), kScores>,
                                 product<HWY_MIN(kGroup, 11), kScores>,
                                 product<HWY_MIN(kGroup, 12), kScores>};

// softmax_tile of attention_parts.h, in vectors.
HWY_INLINE TileSoftmax softmax_row(float* scores, KeyRange visible, float factor) {
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  constexpr int64_t kVectors = kSumChains / kLanes;
  const int64_t begin = visible.begin / kSumChains * kSumChains;
  const int64_t end = round_up(visible.end, kSumChains);
  for (int64_t l = begin; l < visible.begin; ++l) scores[l] = kNothing;
  for (int64_t l = visible.end; l < end; ++l) scores[l] = kNothing;
  Vec maximum = set(kNothing);
  for (int64_t l = begin; l < end; l += kLanes) maximum = hn::Max(load(scores + l), maximum);
  const float max = hn::GetLane(hn::MaxOfLanes(kFloats, maximum)) * factor;
  const Vec vector_factor = set(factor);
  const Vec minus_max = set(-max);
  Vec sums[kVectors];
  for (Vec& sum : sums) sum = hn::Zero(kFloats);
  for (int64_t l = begin; l < end; l += kSumChains) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) {
      float* at = scores + l + v * kLanes;
      const Vec p = exp2(hn::MulAdd(load(at), vector_factor, minus_max));
      store(p, at);
      sums[v] = hn::Add(sums[v], p);
    }
  }
  alignas(64) float chains[kSumChains];
  for (int64_t v = 0; v < kVectors; ++v) store(sums[v], chains + v * kLanes);
  return {max, fold_chains(chains)};
}

// total = total * keep + tile * add, each product and the sum rounded. count % 16 == 0.
HWY_INLINE void merge_columns(float* total, float keep, const float* tile, float add,
                              int64_t count) {
  const Vec vector_keep = set(keep);
  const Vec vector_add = set(add);
  for (int64_t k = 0; k < count; k += kLanes) {
    store(hn::Add(hn::Mul(load(total + k), vector_keep), hn::Mul(load(tile + k), vector_add)),
          total + k);
  }
}

HWY_INLINE void copy_columns(const float* from, float* to, int64_t count) {
  for (int64_t k = 0; k < count; k += kLanes) store(load(from + k), to + k);
}

HWY_INLINE void write_output(const float* total, float sum, float* y, int64_t size) {
  const Vec inverse = set(1.0f / sum);
  for (int64_t k = 0; k < size; k += kLanes) store(hn::Mul(load(total + k), inverse), y + k);
}

// Where query i of a unit lies in q and y.
struct QueryPlace {
  QueryPlace(const AttentionArgs& args, const AttentionUnit& unit, int64_t i) {
    const int64_t size = args.pages.dim(3);
    const int64_t group = args.q.dim(1) / size / (args.pages.dim(1) / 2);
    row = args.sequence_starts.as<int32_t>()[unit.sequence] + (unit.first_query + i) / group;
    column = (unit.kv_head * group + (unit.first_query + i) % group) * size;
  }
  int64_t row;
  int64_t column;
};

// The tiles of a unit, for T the type of the pages. A query that has seen no key yet has a sum of
// exactly 0; one that has seen any has one of about 1 or more, or NaN.
template <class T>
class Tiles {
 public:
  Tiles(const AttentionArgs& args, const AttentionUnit& unit)
      : unit_(unit),
        pages_(args.pages),
        page_table_(args.page_table.row<int32_t>(unit.sequence)),
        page_positions_(args.pages.dim(2)),
        size_(args.pages.dim(3)),
        stride_(round_up(size_, kPanel)),
        factor_(score_factor(args.scale)) {
    const int32_t* positions = args.positions.as<int32_t>();
    for (int64_t first = 0; first < unit.queries; first += kGroup) {
      const int64_t count = HWY_MIN(kGroup, unit.queries - first);
      float* packed = packed_ + first * size_;
      for (int64_t i = 0; i < count; ++i) {
        const QueryPlace place(args, unit, first + i);
        const float* q = args.q.row<float>(place.row) + place.column;
        for (int64_t k = 0; k < size_; ++k) packed[k * count + i] = q[k];
        ranges_[first + i] = visible_keys(positions[place.row], args.window);
      }
    }
  }

  // All tiles, into y.
  void run(const AttentionArgs& args) {
    reset(buffer_);
    for (int64_t tile = 0; tile < unit_.tiles; ++tile) run_tile(unit_.first_tile + tile);
    for (int64_t i = 0; i < unit_.queries; ++i) {
      const QueryPlace place(args, unit_, i);
      write_output(total_ + i * stride_, sums_[i], args.y.row<float>(place.row) + place.column,
                   size_);
    }
  }

  // Tiles [begin, end) of the unit, each into its slot.
  void keep(int64_t begin, int64_t end, float* slots) {
    const int64_t slot_floats = attention_slot_floats(unit_.queries, size_);
    for (int64_t tile = begin; tile < end; ++tile) {
      float* slot = slots + tile * slot_floats;
      reset(slot);
      run_tile(unit_.first_tile + tile);
      float* states = slot + unit_.queries * stride_;
      std::copy_n(maxima_, unit_.queries, states);
      std::copy_n(sums_, unit_.queries, states + unit_.queries);
    }
  }

 private:
  enum class Merge : uint8_t { kNothing, kFirst, kAdd };

  void reset(float* total) {
    total_ = total;
    std::fill_n(maxima_, kUnitQueries, 0.0f);
    std::fill_n(sums_, kUnitQueries, 0.0f);
  }

  void run_tile(int64_t tile) {
    const int64_t begin = tile * kAttentionTile;
    for (int64_t i = 0; i < unit_.queries; ++i) visible_[i] = within_tile(ranges_[i], begin);
    form_scores(begin);
    weigh();
    merge_states();
    add_values(begin);
  }

  // What any of queries [first, first + count) sees: later ones see no less at the end and no more
  // at the beginning.
  KeyRange seen(int64_t first, int64_t count) const {
    return {visible_[first].begin, visible_[first + count - 1].end};
  }

  void form_scores(int64_t tile_begin) {
    const KeyRange all = seen(0, unit_.queries);
    for (int64_t l = all.begin / kPanel * kPanel; l < all.end; l += kPanel) {
      const T* keys = pages_.keys(page(tile_begin + l), unit_.kv_head) + l % page_positions_;
      for (int64_t k = 0; k < size_; ++k) {
        for (int64_t c = 0; c < kPanel; c += kLanes)
          store(load(keys + k * page_positions_ + c), panel_ + k * kPanel + c);
      }
      for (int64_t first = 0; first < unit_.queries; first += kGroup) {
        const int64_t count = HWY_MIN(kGroup, unit_.queries - first);
        const KeyRange range = seen(first, count);
        if (range.begin >= l + kPanel || range.end <= l) continue;
        kProducts<true>[count](packed_ + first * size_, panel_, size_, false,
                               scores_ + first * kAttentionTile + l);
      }
    }
  }

  void weigh() {
    for (int64_t i = 0; i < unit_.queries; ++i) {
      TileSoftmax softmax;
      if (visible_[i].begin < visible_[i].end)
        softmax = softmax_row(scores_ + i * kAttentionTile, visible_[i], factor_);
      tile_maxima_[i] = softmax.max;
      tile_sums_[i] = softmax.sum;
      merges_[i] = softmax.sum == 0.0f ? Merge::kNothing
                   : sums_[i] == 0.0f  ? Merge::kFirst
                                       : Merge::kAdd;
    }
  }

  // The part of merge_tile that is one number a query.
  void merge_states() {
    for (int64_t i = 0; i < unit_.queries; i += kLanes) {
      const Vec tile_max = load(tile_maxima_ + i);
      const Vec tile_sum = load(tile_sums_ + i);
      const Vec old_max = load(maxima_ + i);
      const Vec old_sum = load(sums_ + i);
      const Vec max = hn::Max(tile_max, old_max);
      const Vec keep = exp2(hn::Sub(old_max, max));
      const Vec add = exp2(hn::Sub(tile_max, max));
      const Vec sum = hn::Add(hn::Mul(old_sum, keep), hn::Mul(tile_sum, add));
      const auto unseen = hn::Eq(tile_sum, hn::Zero(kFloats));
      const auto first = hn::Eq(old_sum, hn::Zero(kFloats));
      store(keep, keeps_ + i);
      store(add, adds_ + i);
      store(hn::IfThenElse(unseen, old_max, hn::IfThenElse(first, tile_max, max)), maxima_ + i);
      store(hn::IfThenElse(unseen, old_sum, hn::IfThenElse(first, tile_sum, sum)), sums_ + i);
    }
  }

  void add_values(int64_t tile_begin) {
    const KeyRange all = seen(0, unit_.queries);
    for (int64_t k = 0; k < size_; k += kPanel) {
      for (int64_t l = all.begin; l < all.end;) {
        const T* values = pages_.values(page(tile_begin + l), unit_.kv_head) + k;
        const int64_t end = HWY_MIN(all.end, round_up(l + 1, page_positions_));
        for (; l < end; ++l) {
          const T* value = values + l % page_positions_ * size_;
          for (int64_t c = 0; c < kPanel; c += kLanes)
            store(k + c < size_ ? load(value + c) : hn::Zero(kFloats), panel_ + l * kPanel + c);
        }
      }
      for (int64_t first = 0; first < unit_.queries; first += kGroup)
        add_group(first, HWY_MIN(kGroup, unit_.queries - first), k);
    }
  }

  // Outputs [k, k + 32) of some queries: in the middle what all of them see, before and after it
  // what only some see, query by query.
  void add_group(int64_t first, int64_t count, int64_t k) {
    alignas(64) float out[kGroup * kPanel];
    const KeyRange common = {visible_[first + count - 1].begin, visible_[first].end};
    const bool any_common = common.begin < common.end;
    const bool same_begin = visible_[first].begin == common.begin;
    if (!any_common || !same_begin) std::fill_n(out, count * kPanel, 0.0f);
    for (int64_t i = 0; i < count && !(any_common && same_begin); ++i) {
      const KeyRange own = visible_[first + i];
      add_rows(first + i, 1, {own.begin, any_common ? common.begin : own.end}, true,
               out + i * kPanel);
    }
    if (any_common) {
      add_rows(first, count, common, !same_begin, out);
      for (int64_t i = 0; i < count; ++i)
        add_rows(first + i, 1, {common.end, visible_[first + i].end}, true, out + i * kPanel);
    }
    for (int64_t i = 0; i < count; ++i) {
      float* total = total_ + (first + i) * stride_ + k;
      if (merges_[first + i] == Merge::kFirst) copy_columns(out + i * kPanel, total, kPanel);
      if (merges_[first + i] == Merge::kAdd)
        merge_columns(total, keeps_[first + i], out + i * kPanel, adds_[first + i], kPanel);
    }
  }

  void add_rows(int64_t first, int64_t count, KeyRange range, bool add, float* out) {
    if (range.begin >= range.end) return;
    kProducts<false>[count](scores_ + first * kAttentionTile + range.begin,
                            panel_ + range.begin * kPanel, range.end - range.begin, add, out);
  }

  int64_t page(int64_t position) const {
    const int64_t page = page_table_[position / page_positions_];
    CHECK_GE(page, 0);
    return page;
  }

  const AttentionUnit& unit_;
  const KvPages<T> pages_;
  const int32_t* page_table_;
  const int64_t page_positions_;
  const int64_t size_;
  const int64_t stride_;  // of total_
  const float factor_;
  float* total_ = nullptr;  // [queries stride_]
  KeyRange ranges_[kUnitQueries];
  KeyRange visible_[kUnitQueries];  // of the current tile, relative to it
  Merge merges_[kUnitQueries];
  alignas(64) float maxima_[kUnitQueries];
  alignas(64) float sums_[kUnitQueries];
  alignas(64) float tile_maxima_[kUnitQueries] = {};
  alignas(64) float tile_sums_[kUnitQueries] = {};
  alignas(64) float keeps_[kUnitQueries];
  alignas(64) float adds_[kUnitQueries];
  alignas(64) float scores_[kUnitQueries * kAttentionTile];
  alignas(64) float panel_[HWY_MAX(kMaxHeadSize, kAttentionTile) * kPanel];
  alignas(64) float packed_[kUnitQueries * kMaxHeadSize];  // a group of queries as [K count]
  alignas(64) float buffer_[kUnitQueries * kMaxHeadSize];
};

template <class T>
void run_tiles(const AttentionArgs& args, const AttentionUnit& unit, int64_t run, float* slots) {
  Tiles<T> tiles(args, unit);
  if (unit.runs == 1) return tiles.run(args);
  tiles.keep(run * unit.tiles / unit.runs, (run + 1) * unit.tiles / unit.runs, slots);
}

// slots: of the unit, if it has more than one run.
void run_part(const AttentionArgs& args, const AttentionUnit& unit, int64_t run, float* slots) {
  switch (args.pages.dtype()) {
    case DType::kF16:
      return run_tiles<F16>(args, unit, run, slots);
    case DType::kBF16:
      return run_tiles<BF16>(args, unit, run, slots);
    default:
      return run_tiles<float>(args, unit, run, slots);
  }
}

// Merges the kept tiles of a unit in order, into the first that a query sees, and writes y.
void merge_slots(const AttentionArgs& args, const AttentionUnit& unit, float* slots) {
  const int64_t size = args.pages.dim(3);
  const int64_t stride = round_up(size, kPanel);
  const int64_t slot_floats = attention_slot_floats(unit.queries, size);
  for (int64_t i = 0; i < unit.queries; ++i) {
    float* total = nullptr;
    TileSoftmax state;
    for (int64_t tile = 0; tile < unit.tiles; ++tile) {
      float* slot = slots + tile * slot_floats;
      const float* states = slot + unit.queries * stride + i;
      const TileSoftmax softmax = {states[0], states[unit.queries]};
      if (softmax.sum == 0.0f) continue;
      if (total == nullptr) {
        total = slot + i * stride;
        state = softmax;
        continue;
      }
      const float max = softmax.max > state.max ? softmax.max : state.max;
      const float keep = ashlar::exp2(state.max - max);
      const float add = ashlar::exp2(softmax.max - max);
      merge_columns(total, keep, slot + i * stride, add, stride);
      state = {max, state.sum * keep + softmax.sum * add};
    }
    const QueryPlace place(args, unit, i);
    write_output(total, state.sum, args.y.row<float>(place.row) + place.column, size);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ashlar
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ashlar {

namespace {

HWY_EXPORT(run_part);
HWY_EXPORT(merge_slots);

}  // namespace

void attention_cpu(Stream& stream, const AttentionArgs& args) {
  const int64_t size = args.pages.dim(3);
  if (size % 16 != 0 || size > kMaxHeadSize || args.pages.dim(2) % 32 != 0)
    return attention_reference(stream, args);
  zero_padding_rows(args);
  ThreadPool* pool = stream.device().thread_pool();
  const AttentionPlan plan = plan_attention(args, pool->threads());
  // Small (it holds tiles of cut units alone), and from the second call on memory that the
  // allocator kept.
  std::unique_ptr<float[]> scratch;
  std::unique_ptr<std::atomic<int64_t>[]> runs_done;
  if (plan.scratch_floats > 0) {
    scratch.reset(new float[static_cast<size_t>(plan.scratch_floats)]);
    runs_done = std::make_unique<std::atomic<int64_t>[]>(plan.units.size());
  }
  const auto run = HWY_DYNAMIC_DISPATCH(run_part);
  const auto merge = HWY_DYNAMIC_DISPATCH(merge_slots);
  pool->run(static_cast<int64_t>(plan.parts.size()), [&](int64_t i, int) {
    const AttentionPart& part = plan.parts[static_cast<size_t>(i)];
    const AttentionUnit& unit = plan.units[static_cast<size_t>(part.unit)];
    if (unit.runs == 1) return run(args, unit, 0, nullptr);
    float* slots = scratch.get() + unit.first_slot;
    run(args, unit, part.run, slots);
    if (runs_done[part.unit].fetch_add(1, std::memory_order_acq_rel) == unit.runs - 1)
      merge(args, unit, slots);
  });
}

}  // namespace ashlar
#endif  // HWY_ONCE
