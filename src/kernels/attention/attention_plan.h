// How the work of one attention call is cut into the parts of one parallel loop.
//
// A part is some queries of a sequence that share a key head, and a run of key tiles. Neighbouring
// queries stay together, because a part loads each key and value once for all of them; where that
// would leave threads without work, the tiles of a part are cut into runs as well (one decoding
// sequence with one key head still keeps every thread busy). A cut part keeps its tiles apart until
// the last of its runs has ended, and they are then merged in order: no cut changes a bit. The plan
// knows nothing of how tiles are computed.
#ifndef ASHLAR_KERNELS_ATTENTION_ATTENTION_PLAN_H_
#define ASHLAR_KERNELS_ATTENTION_ATTENTION_PLAN_H_

#include <cstdint>
#include <vector>

#include "kernels/attention/attention.h"

namespace ashlar {

constexpr int64_t kUnitQueries = 96;     // most queries of a part; four times 24 and eight times 12
constexpr int64_t kLeastQueries = 12;    // below it, a part is not cut for the sake of the threads
constexpr int64_t kAttentionPanel = 32;  // tiles are kept with heads rounded up to this many floats

// Queries that share a key head, all their tiles.
struct AttentionUnit {
  int32_t sequence = 0;
  int32_t kv_head = 0;
  int64_t first_query = 0;  // of this sequence and key head: row * group + head of the group
  int64_t queries = 0;
  int64_t first_tile = 0;
  int64_t tiles = 0;
  int64_t runs = 1;
  int64_t first_slot = 0;  // where in scratch its tiles are kept, in floats; unused with one run
};

struct AttentionPart {
  int32_t unit = 0;
  int32_t run = 0;
};

struct AttentionPlan {
  std::vector<AttentionUnit> units;
  std::vector<AttentionPart> parts;  // those that take longest first
  int64_t scratch_floats = 0;
};

// Floats of one tile of a cut unit: [queries stride] outputs, [queries] maxima, [queries] sums.
inline int64_t attention_slot_floats(int64_t queries, int64_t head_size) {
  return queries * ((head_size + kAttentionPanel - 1) / kAttentionPanel * kAttentionPanel + 2);
}

AttentionPlan plan_attention(const AttentionArgs& args, int threads);

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_ATTENTION_ATTENTION_PLAN_H_
