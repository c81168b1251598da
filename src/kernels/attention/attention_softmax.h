// Scores of a tile into weights, and tiles into what came before them, for the queries of one part
// of the CPU cell: softmax_tile and the one-number-a-query half of merge_tile (attention_parts.h)
// in vectors, with the same bits. How scores and outputs are formed is not known here.
#ifndef ASHLAR_KERNELS_ATTENTION_ATTENTION_SOFTMAX_H_
#define ASHLAR_KERNELS_ATTENTION_ATTENTION_SOFTMAX_H_

#include <cstdint>

#include "kernels/attention/attention_parts.h"
#include "kernels/attention/attention_plan.h"

namespace ashlar {

// A maximum and a sum for each query. One that has seen no key has a sum of exactly 0; one that has
// seen any has a sum of about 1 or more, or NaN.
struct QueryStates {
  alignas(64) float maxima[kUnitQueries] = {};
  alignas(64) float sums[kUnitQueries] = {};
};

enum class TileMerge : uint8_t { kNothing, kFirst, kAdd };

// What becomes of each query's output: total * keep + tile * add, the tile as it is, or nothing.
struct QueryMerges {
  alignas(64) float keep[kUnitQueries];
  alignas(64) float add[kUnitQueries];
  TileMerge kind[kUnitQueries];
};

// scores is [queries kAttentionTile]; visible, relative to the tile, may be empty for some. Weights
// replace the scores as in softmax_tile. `states` takes in the tile.
void weigh_tile(float* scores, const KeyRange* visible, int64_t queries, float factor,
                QueryStates& states, QueryMerges& merges);

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_ATTENTION_ATTENTION_SOFTMAX_H_
