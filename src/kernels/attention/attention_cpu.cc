// The CPU cell of attention: both products run as matrix products, over keys and values that were
// widened to f32 once for all queries of a part where there are many.
//
//   rows [K 32] keys of 32 positions      scores [96 128] = queries x rows, 4 times a tile
//   rows [128 32] values, 32 elements     output [12 32] = weights x rows, merged into [96 K]
//
// Twelve queries of a part (attention_plan.h) and two vectors of outputs (six with AVX2) stay in
// registers. Lanes are outputs, never parts of a sum, so every instruction set and cut has the bits
// of the reference. Scores are formed for whole rows of 32; output chains stop at the row's own
// position: columns that only some of twelve queries see are added query by query. Figures and what
// lost are below, at kGroup.
#include "kernels/attention/attention.h"

#include <atomic>
#include <memory>
#include <type_traits>

#include "base/align.h"
#include "kernels/attention/attention_cells.h"
#include "kernels/attention/attention_parts.h"
#include "kernels/attention/attention_plan.h"
#include "kernels/attention/attention_softmax.h"
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
using Vec = hn::Vec<Floats>;
constexpr Floats kFloats;
constexpr int64_t kLanes = HWY_MIN(hn::MaxLanes(Floats()), 16);
constexpr int64_t kPanel = kAttentionPanel;
// Of copied queries: known to the compiler, and not a multiple of a page of memory.
constexpr int64_t kQueryStride = kMaxHeadSize + 16;
// Measured with f16 pages on a Xeon with AVX-512, two cores with others at work, 2026-11-30:
//   2,048 rows, 9/3 heads of 64: 116 GFLOP/s on one thread (of 176; products alone at the peak),
//     before 62; 4/1 heads of 256 with a window of 512: 121, before 67 (half of two threads)
//   1 row, 2,048 keys, 9/3 heads of 64: 25.6 GB/s on two threads, before 20.5
//   64 sequences of 512, 9/3 heads of 64: 16.5 GB/s on two threads, before 10
// What lost: 192 queries a part, +2 % for twice the stack; widening into a panel also for few
// queries, 1.4 times the time; asking ahead into the first level (7.9 against 8.5 GB/s a core at 64
// sequences), for every second line (6.0), or not at all (6.3).
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

// Rows of 32 numbers, `step` apart: a panel, or a part of a page.
template <class T>
struct Rows {
  const T* first = nullptr;
  int64_t step = 0;
};

// Asks for a row that is wanted next, in the second level of the cache: the processor's own
// prefetching stops at the end of each page.
template <class T>
HWY_INLINE void prefetch(Rows<T>& ahead) {
  __builtin_prefetch(ahead.first, 0, 2);
  ahead.first += ahead.step;
}

// out[i][c] = (add ? out[i][c] : 0) + weight(i, 0) row(0)[c] + weight(i, 1) row(1)[c] + ..., one
// FMA chain, for c < 32. Scores take copied queries and write rows of a tile; outputs take such
// rows and write rows of a panel. Rows of pages ask for others meanwhile, `ahead`.
template <int kCount, bool kScores, class T>
void product(const float* weights, Rows<T> rows, Rows<T> ahead, int64_t depth, bool add,
             float* out) {
  constexpr int64_t kFromQuery = kScores ? kQueryStride : kAttentionTile;
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
    const T* row = rows.first + c;
    for (int64_t d = 0; d < depth; ++d, ++weight, row += rows.step) {
      if constexpr (!std::is_same_v<T, float>) prefetch(ahead);
      const Vec row_low = load(row);
      const Vec row_high = load(row + kLanes);
#pragma GCC unroll 12
      for (int i = 0; i < kCount; ++i) {
        const Vec w = set(weight[i * kFromQuery]);
        low[i] = hn::MulAdd(w, row_low, low[i]);
        high[i] = hn::MulAdd(w, row_high, high[i]);
      }
    }
#pragma GCC unroll 12
    for (int i = 0; i < kCount; ++i) {
      store(low[i], out + i * kToQuery + c);
      store(high[i], out + i * kToQuery + c + kLanes);
    }
  }
}

template <class T>
using Product = void (*)(const float*, Rows<T>, Rows<T>, int64_t, bool, float*);
// By the number of queries, up to kGroup.
template <bool kScores, class T>
constexpr Product<T> kProducts[] = {nullptr,
                                    product<1, kScores, T>,
                                    product<2, kScores, T>,
                                    product<3, kScores, T>,
                                    product<4, kScores, T>,
                                    product<5, kScores, T>,
                                    product<6, kScores, T>,
                                    product<HWY_MIN(kGroup, 7), kScores, T>,
                                    product<HWY_MIN(kGroup, 8), kScores, T>,
                                    product<HWY_MIN(kGroup, 9), kScores, T>,
                                    product<HWY_MIN(kGroup, 10), kScores, T>,
                                    product<HWY_MIN(kGroup, 11), kScores, T>,
                                    product<HWY_MIN(kGroup, 12), kScores, T>};

// panel[r][c] = row(r)[c] for c < columns, which is at least 16; beyond it, zero.
template <class T>
HWY_INLINE void widen(Rows<T> rows, Rows<T> ahead, int64_t depth, int64_t columns, float* panel) {
  for (int64_t r = 0; r < depth; ++r, rows.first += rows.step, panel += kPanel) {
    prefetch(ahead);
#pragma GCC unroll 4
    for (int64_t c = 0; c < kPanel; c += kLanes)
      store(c < columns ? load(rows.first + c) : hn::Zero(kFloats), panel + c);
  }
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

// The tiles of a unit, for T the type of the pages. A unit of few queries multiplies what it reads
// from the pages; one of many widens it into a panel first.
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
    for (int64_t i = 0; i < unit.queries; ++i) {
      const QueryPlace place(args, unit, i);
      outputs_[i] = args.y.row<float>(place.row) + place.column;
      copy_columns(args.q.row<float>(place.row) + place.column, queries_ + i * kQueryStride, size_);
      ranges_[i] = visible_keys(positions[place.row], args.window);
    }
  }

  // All tiles, into y.
  void run() {
    end_ = ranges_[unit_.queries - 1].end;
    total_ = buffer_;
    for (int64_t tile = 0; tile < unit_.tiles; ++tile) run_tile(unit_.first_tile + tile);
    for (int64_t i = 0; i < unit_.queries; ++i)
      write_output(total_ + i * stride_, states_.sums[i], outputs_[i], size_);
  }

  // Tiles [begin, end) of the unit, each into its slot.
  void keep(int64_t begin, int64_t end, float* slots) {
    const int64_t slot_floats = attention_slot_floats(unit_.queries, size_);
    end_ = HWY_MIN(ranges_[unit_.queries - 1].end, (unit_.first_tile + end) * kAttentionTile);
    for (int64_t tile = begin; tile < end; ++tile) {
      total_ = slots + tile * slot_floats;
      states_ = {};
      run_tile(unit_.first_tile + tile);
      float* states = total_ + unit_.queries * stride_;
      std::copy_n(states_.maxima, unit_.queries, states);
      std::copy_n(states_.sums, unit_.queries, states + unit_.queries);
    }
  }

 private:
  void run_tile(int64_t tile) {
    tile_begin_ = tile * kAttentionTile;
    for (int64_t i = 0; i < unit_.queries; ++i) visible_[i] = within_tile(ranges_[i], tile_begin_);
    form_scores();
    weigh_tile(scores_, visible_, unit_.queries, factor_, states_, merges_);
    for (int64_t k = 0; k < size_; k += kPanel) {
      if (!from_pages(k)) widen_values(k);
      for (int64_t first = 0; first < unit_.queries; first += kGroup)
        add_group(first, HWY_MIN(kGroup, unit_.queries - first), k);
    }
  }

  // Whether columns from k on are multiplied as they lie in the pages.
  bool from_pages(int64_t k) const {
    return !std::is_same_v<T, float> && unit_.queries <= kGroup && size_ - k >= kPanel;
  }

  // What any of queries [first, first + count) sees: later ones see no less at the end and no more
  // at the beginning.
  KeyRange seen(int64_t first, int64_t count) const {
    return {visible_[first].begin, visible_[first + count - 1].end};
  }

  int64_t page(int64_t position) const {
    const int64_t page = page_table_[position / page_positions_];
    CHECK_GE(page, 0);
    return page;
  }
  // The keys of 32 positions, a row an element.
  Rows<T> keys_at(int64_t position) const {
    return {pages_.keys(page(position), unit_.kv_head) + position % page_positions_,
            page_positions_};
  }
  // Elements from k on of the values of the positions of a page, a row a position.
  Rows<T> values_at(int64_t position, int64_t k) const {
    const int64_t row = position % page_positions_;
    return {pages_.values(page(position), unit_.kv_head) + row * size_ + k, size_};
  }

  // As many rows of keys of the next tile as values at l are used up meanwhile; without a next
  // tile, those values.
  Rows<T> ahead_of_values(int64_t l, int64_t k) const {
    if (tile_begin_ + kAttentionTile + l >= end_) return values_at(tile_begin_ + l, k);
    Rows<T> keys = keys_at(tile_begin_ + kAttentionTile + l / kPanel * kPanel);
    keys.first += (k + l % kPanel) * page_positions_;
    return keys;
  }

  void form_scores() {
    const KeyRange all = seen(0, unit_.queries);
    for (int64_t l = all.begin / kPanel * kPanel; l < all.end; l += kPanel) {
      const Rows<T> keys = keys_at(tile_begin_ + l);
      const Rows<T> ahead = {values_at(tile_begin_ + l, 0).first, kPanel};
      if (from_pages(0)) {
        kProducts<true, T>[unit_.queries](queries_, keys, ahead, size_, false, scores_ + l);
        continue;
      }
      widen(keys, ahead, size_, kPanel, panel_);
      for (int64_t first = 0; first < unit_.queries; first += kGroup) {
        const int64_t count = HWY_MIN(kGroup, unit_.queries - first);
        const KeyRange range = seen(first, count);
        if (range.begin >= l + kPanel || range.end <= l) continue;
        kProducts<true, float>[count](queries_ + first * kQueryStride, {panel_, kPanel}, {}, size_,
                                      false, scores_ + first * kAttentionTile + l);
      }
    }
  }

  void widen_values(int64_t k) {
    const KeyRange all = seen(0, unit_.queries);
    for (int64_t l = all.begin; l < all.end;) {
      const int64_t end = HWY_MIN(all.end, round_up(l + 1, kPanel));
      widen(values_at(tile_begin_ + l, k), ahead_of_values(l, k), end - l, size_ - k,
            panel_ + l * kPanel);
      l = end;
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
      add_rows(first + i, 1, {own.begin, any_common ? common.begin : own.end}, k, true,
               out + i * kPanel);
    }
    if (any_common) {
      add_rows(first, count, common, k, !same_begin, out);
      for (int64_t i = 0; i < count; ++i)
        add_rows(first + i, 1, {common.end, visible_[first + i].end}, k, true, out + i * kPanel);
    }
    for (int64_t i = 0; i < count; ++i) {
      float* total = total_ + (first + i) * stride_ + k;
      if (merges_.kind[first + i] == TileMerge::kFirst)
        copy_columns(out + i * kPanel, total, kPanel);
      if (merges_.kind[first + i] == TileMerge::kAdd) {
        merge_columns(total, merges_.keep[first + i], out + i * kPanel, merges_.add[first + i],
                      kPanel);
      }
    }
  }

  // Adds the values of a range of the tile to `out`, or writes them over it.
  void add_rows(int64_t first, int64_t count, KeyRange range, int64_t k, bool add, float* out) {
    if (range.begin >= range.end) return;
    const float* weights = scores_ + first * kAttentionTile;
    if (!from_pages(k)) {
      kProducts<false, float>[count](weights + range.begin, {panel_ + range.begin * kPanel, kPanel},
                                     {}, range.end - range.begin, add, out);
      return;
    }
    for (int64_t l = range.begin; l < range.end;) {
      const int64_t end = HWY_MIN(range.end, round_up(l + 1, kPanel));
      kProducts<false, T>[count](weights + l, values_at(tile_begin_ + l, k), ahead_of_values(l, k),
                                 end - l, add, out);
      add = true;
      l = end;
    }
  }

  const AttentionUnit& unit_;
  const KvPages<T> pages_;
  const int32_t* page_table_;
  const int64_t page_positions_;
  const int64_t size_;
  const int64_t stride_;  // of total_
  const float factor_;
  int64_t end_ = 0;  // of the positions that this part reads
  int64_t tile_begin_ = 0;
  float* total_ = nullptr;        // [queries stride_]
  float* outputs_[kUnitQueries];  // rows of y
  KeyRange ranges_[kUnitQueries];
  KeyRange visible_[kUnitQueries];  // of the current tile, relative to it
  QueryStates states_;
  QueryMerges merges_;
  alignas(64) float scores_[kUnitQueries * kAttentionTile];
  alignas(64) float panel_[HWY_MAX(kMaxHeadSize, kAttentionTile) * kPanel];
  alignas(64) float queries_[kUnitQueries * kQueryStride];
  alignas(64) float buffer_[kUnitQueries * kMaxHeadSize];
};

template <class T>
void run_tiles(const AttentionArgs& args, const AttentionUnit& unit, int64_t run, float* slots) {
  Tiles<T> tiles(args, unit);
  if (unit.runs == 1) return tiles.run();
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
