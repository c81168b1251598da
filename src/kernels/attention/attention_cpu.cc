// The CPU cell of attention: vectors of positions for the scores, vectors of head elements for the
// output.
//
// A unit of work is up to four queries that share a key head: heads of one group, and in prefill
// neighbouring rows, so each key and value is loaded and widened to f32 once for four queries.
// Lanes are outputs, never parts of a sum, so the chains are those of the reference and the bits
// are the same for every instruction set. Scores are formed for whole pages; softmax_tile then
// ignores what a row may not see. Outputs stop at the row's own position.
#include "kernels/attention/attention.h"

#include "base/align.h"
#include "kernels/attention/attention_cells.h"
#include "kernels/attention/attention_parts.h"
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

HWY_INLINE Vec load(const float* p) { return hn::LoadU(kFloats, p); }
HWY_INLINE Vec load(const F16* p) {
  const hn::Rebind<hwy::float16_t, Floats> half;
  return hn::PromoteTo(kFloats, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(p)));
}
HWY_INLINE Vec load(const BF16* p) {
  const hn::Rebind<hwy::bfloat16_t, Floats> half;
  return hn::PromoteTo(kFloats, hn::LoadU(half, reinterpret_cast<const hwy::bfloat16_t*>(p)));
}

// scores[i][l] = q[i] . key l for l < count, a multiple of 32. keys is [K stride].
template <int kCount, class T>
HWY_INLINE void score_page(const float* const* q, int64_t size, const T* keys, int64_t stride,
                           int64_t count, float* const* scores) {
  for (int64_t l = 0; l < count; l += 2 * kLanes) {
    Vec low[kCount];
    Vec high[kCount];
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) low[i] = high[i] = hn::Zero(kFloats);
    for (int64_t k = 0; k < size; ++k) {
      const Vec key_low = load(keys + k * stride + l);
      const Vec key_high = load(keys + k * stride + l + kLanes);
#pragma GCC unroll 4
      for (int i = 0; i < kCount; ++i) {
        const Vec query = hn::Set(kFloats, q[i][k]);
        low[i] = hn::MulAdd(query, key_low, low[i]);
        high[i] = hn::MulAdd(query, key_high, high[i]);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      hn::StoreU(low[i], kFloats, scores[i] + l);
      hn::StoreU(high[i], kFloats, scores[i] + l + kLanes);
    }
  }
}

// out[i][k] += p[i][l] * values[l][k] for ascending l < count and kVectors vectors of k from begin.
template <int kCount, int kVectors, class T>
HWY_INLINE void accumulate_columns(const float* const* p, const T* values, int64_t size,
                                   int64_t count, int64_t begin, float* const* out) {
  Vec sum[kCount][kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[i][v] = load(out[i] + begin + v * kLanes);
  }
  for (int64_t l = 0; l < count; ++l) {
    Vec value[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) value[v] = load(values + l * size + begin + v * kLanes);
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      const Vec weight = hn::Set(kFloats, p[i][l]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::MulAdd(weight, value[v], sum[i][v]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[i][v], kFloats, out[i] + begin + v * kLanes);
  }
}

template <int kCount, class T>
HWY_INLINE void accumulate_page(const float* const* p, const T* values, int64_t size, int64_t count,
                                float* const* out) {
  int64_t k = 0;
  for (; k + 2 * kLanes <= size; k += 2 * kLanes) {
    accumulate_columns<kCount, 2>(p, values, size, count, k, out);
  }
  for (; k < size; k += kLanes) accumulate_columns<kCount, 1>(p, values, size, count, k, out);
}

// One tile for all queries of a unit.
template <int kCount, class T>
class Unit {
 public:
  Unit(const AttentionArgs& args, int64_t sequence, int64_t kv_head, int64_t first_query)
      : args_(args),
        pages_(args.pages),
        page_table_(args.page_table.row<int32_t>(sequence)),
        kv_head_(kv_head),
        page_positions_(args.pages.dim(2)),
        size_(args.pages.dim(3)) {
    const int64_t group = args.q.dim(1) / size_ / (args.pages.dim(1) / 2);
    const int64_t first_row = args.sequence_starts.as<int32_t>()[sequence];
    for (int i = 0; i < kCount; ++i) {
      const int64_t row = first_row + (first_query + i) / group;
      const int64_t column = (kv_head * group + (first_query + i) % group) * size_;
      q_[i] = args.q.row<float>(row) + column;
      y_[i] = args.y.row<float>(row) + column;
      ranges_[i] = visible_keys(args.positions.as<int32_t>()[row], args.window);
    }
  }

  void run() {
    // Later queries never see less at the end nor more at the beginning.
    const int64_t first_tile = ranges_[0].begin / kAttentionTile * kAttentionTile;
    for (int64_t tile = first_tile; tile < ranges_[kCount - 1].end; tile += kAttentionTile)
      run_tile(tile);
    for (int i = 0; i < kCount; ++i) {
      const float inverse = 1.0f / rows_[i].sum;
      for (int64_t k = 0; k < size_; ++k) y_[i][k] = total_[i][k] * inverse;
    }
  }

 private:
  void run_tile(int64_t tile) {
    KeyRange visible[kCount];
    KeyRange all = within_tile(ranges_[0], tile);
    for (int i = 0; i < kCount; ++i) {
      visible[i] = within_tile(ranges_[i], tile);
      all.end = HWY_MAX(all.end, visible[i].end);
    }
    const int64_t first_page = all.begin / page_positions_ * page_positions_;
    for (int64_t l = first_page; l < all.end; l += page_positions_) {
      float* scores[kCount];
      for (int i = 0; i < kCount; ++i) scores[i] = scores_[i] + l;
      score_page<kCount>(q_, size_, pages_.keys(page(tile + l), kv_head_), page_positions_,
                         page_positions_, scores);
    }
    TileSoftmax softmax[kCount];
    for (int i = 0; i < kCount; ++i) {
      if (visible[i].begin < visible[i].end) {
        softmax[i] = softmax_tile(scores_[i], visible[i], factor_);
        std::fill_n(tile_[i], size_, 0.0f);
      }
    }
    for (int64_t l = first_page; l < all.end; l += page_positions_) add_page(tile, l, visible);
    for (int i = 0; i < kCount; ++i) {
      if (visible[i].begin < visible[i].end) {
        merge_tile(rows_[i], total_[i], softmax[i], tile_[i], size_);
      }
    }
  }

  // Adds the page whose first position is l of the tile: for all queries at once where they see the
  // same part of it.
  void add_page(int64_t tile, int64_t l, const KeyRange* visible) {
    const T* values = pages_.values(page(tile + l), kv_head_);
    KeyRange part[kCount];
    bool same = true;
    for (int i = 0; i < kCount; ++i) {
      part[i] = {HWY_MAX(visible[i].begin, l), HWY_MIN(visible[i].end, l + page_positions_)};
      same = same && part[i].begin == part[0].begin && part[i].end == part[0].end;
    }
    const float* p[kCount];
    float* out[kCount];
    for (int i = 0; i < kCount; ++i) {
      p[i] = scores_[i] + part[i].begin;
      out[i] = tile_[i];
    }
    if (same) {
      const int64_t count = part[0].end - part[0].begin;
      if (count > 0)
        accumulate_page<kCount>(p, values + (part[0].begin - l) * size_, size_, count, out);
      return;
    }
    for (int i = 0; i < kCount; ++i) {
      const int64_t count = part[i].end - part[i].begin;
      if (count > 0)
        accumulate_page<1>(p + i, values + (part[i].begin - l) * size_, size_, count, out + i);
    }
  }

  int64_t page(int64_t position) const {
    const int64_t page = page_table_[position / page_positions_];
    CHECK_GE(page, 0);
    return page;
  }

  const AttentionArgs& args_;
  const KvPages<T> pages_;
  const int32_t* page_table_;
  const int64_t kv_head_;
  const int64_t page_positions_;
  const int64_t size_;
  const float factor_ = score_factor(args_.scale);
  const float* q_[kCount];
  float* y_[kCount];
  KeyRange ranges_[kCount];
  RowState rows_[kCount];
  alignas(64) float scores_[kCount][kAttentionTile];
  alignas(64) float tile_[kCount][kMaxHeadSize];
  alignas(64) float total_[kCount][kMaxHeadSize];
};

template <class T>
void run_queries(const AttentionArgs& args, int64_t sequence, int64_t kv_head, int64_t first_query,
                 int64_t count) {
  switch (count) {
    case 1:
      return Unit<1, T>(args, sequence, kv_head, first_query).run();
    case 2:
      return Unit<2, T>(args, sequence, kv_head, first_query).run();
    case 3:
      return Unit<3, T>(args, sequence, kv_head, first_query).run();
    default:
      return Unit<4, T>(args, sequence, kv_head, first_query).run();
  }
}

void run_unit(const AttentionArgs& args, int64_t sequence, int64_t kv_head, int64_t first_query,
              int64_t count) {
  switch (args.pages.dtype()) {
    case DType::kF16:
      return run_queries<F16>(args, sequence, kv_head, first_query, count);
    case DType::kBF16:
      return run_queries<BF16>(args, sequence, kv_head, first_query, count);
    default:
      return run_queries<float>(args, sequence, kv_head, first_query, count);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ashlar
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ashlar {

namespace {

HWY_EXPORT(run_unit);

constexpr int64_t kUnitQueries = 4;

}  // namespace

void attention_cpu(Stream& stream, const AttentionArgs& args) {
  const int64_t size = args.pages.dim(3);
  if (size % 16 != 0 || size > kMaxHeadSize || args.pages.dim(2) % 32 != 0)
    return attention_reference(stream, args);
  zero_padding_rows(args);
  const int64_t kv_heads = args.pages.dim(1) / 2;
  const int64_t group = args.q.dim(1) / size / kv_heads;
  const int32_t* starts = args.sequence_starts.as<int32_t>();
  const int64_t sequences = args.page_table.dim(0);
  const auto run = HWY_DYNAMIC_DISPATCH(run_unit);
  for (int64_t s = 0; s < sequences; ++s) {
    const int64_t queries = (starts[s + 1] - starts[s]) * group;  // of one key head
    const int64_t units = divide_up(queries, kUnitQueries);
    stream.device().thread_pool()->run(units * kv_heads, [&](int64_t part, int) {
      // The last rows see the most keys, so they are handed out first.
      const int64_t unit = units - 1 - part / kv_heads;
      const int64_t first = unit * kUnitQueries;
      run(args, s, part % kv_heads, first, std::min(kUnitQueries, queries - first));
    });
  }
}

}  // namespace ashlar
#endif  // HWY_ONCE
