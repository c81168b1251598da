// What the reference and the CPU cell of attention share: which keys a row sees, the softmax of one
// tile and the merge of two. Both call the same functions on plain floats, so they can only differ
// in how they form the two products.
#ifndef ASHLAR_KERNELS_ATTENTION_ATTENTION_PARTS_H_
#define ASHLAR_KERNELS_ATTENTION_ATTENTION_PARTS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/attention/attention.h"
#include "kernels/math/activation.h"
#include "kernels/rms_norm/row_norm.h"

namespace ashlar {

constexpr int64_t kMaxHeadSize = 512;  // of the vector cell: 0.5 MiB of stack for a part of work

// Positions [begin, end).
struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;
};

inline KeyRange visible_keys(int64_t position, int64_t window) {
  return {window > 0 ? std::max<int64_t>(0, position - window + 1) : 0, position + 1};
}

// The part of a range that lies in the tile at tile_begin, relative to it; end <= begin: nothing.
inline KeyRange within_tile(KeyRange range, int64_t tile_begin) {
  return {std::max<int64_t>(0, range.begin - tile_begin),
          std::min<int64_t>(kAttentionTile, range.end - tile_begin)};
}

inline float score_factor(float scale) {
  return static_cast<float>(static_cast<double>(scale) * 1.4426950408889634);  // log2(e)
}

struct TileSoftmax {
  float max = 0.0f;  // in units of log2
  float sum = 0.0f;
};

// Turns the scores of one tile into weights, in place: exactly 0 outside `visible`, which is not
// empty. Entries up to the next multiple of 16 are written; those beyond are not touched.
[[gnu::always_inline]] inline TileSoftmax softmax_tile(float* scores, KeyRange visible,
                                                       float factor) {
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  const int64_t begin = visible.begin / kSumChains * kSumChains;
  const int64_t end = (visible.end + kSumChains - 1) / kSumChains * kSumChains;
  for (int64_t l = begin; l < visible.begin; ++l) scores[l] = kNothing;
  for (int64_t l = visible.end; l < end; ++l) scores[l] = kNothing;
  float maxima[kSumChains];
  for (float& m : maxima) m = kNothing;
  for (int64_t l = begin; l < end; l += kSumChains) {
    for (int j = 0; j < kSumChains; ++j)
      maxima[j] = scores[l + j] > maxima[j] ? scores[l + j] : maxima[j];
  }
  float top = maxima[0];
  for (int j = 1; j < kSumChains; ++j) top = maxima[j] > top ? maxima[j] : top;
  const float max = top * factor;
  float chains[kSumChains] = {};
  for (int64_t l = begin; l < end; l += kSumChains) {
    for (int j = 0; j < kSumChains; ++j) {
      const float p = exp2(std::fma(scores[l + j], factor, -max));
      scores[l + j] = p;
      chains[j] += p;
    }
  }
  return {max, fold_chains(chains)};
}

// What a row has gathered from the tiles so far.
struct RowState {
  float max = 0.0f;
  float sum = 0.0f;
  bool started = false;
};

// Merges a tile, output and weight, into the row. total and tile are [K].
[[gnu::always_inline]] inline void merge_tile(RowState& row, float* total,
                                              const TileSoftmax& softmax, const float* tile,
                                              int64_t size) {
  if (!row.started) {
    row = {softmax.max, softmax.sum, true};
    std::copy_n(tile, size, total);
    return;
  }
  const float max = softmax.max > row.max ? softmax.max : row.max;
  const float keep = exp2(row.max - max);
  const float add = exp2(softmax.max - max);
  for (int64_t k = 0; k < size; ++k) total[k] = total[k] * keep + tile[k] * add;
  row.sum = row.sum * keep + softmax.sum * add;
  row.max = max;
}

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_ATTENTION_ATTENTION_PARTS_H_
