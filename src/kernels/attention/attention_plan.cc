// Cuts attention calls into parts: first by rows, then by runs of tiles where that is not enough.
#include "kernels/attention/attention_plan.h"

#include <algorithm>

#include "base/align.h"
#include "kernels/attention/attention_parts.h"

namespace ashlar {

namespace {

// More parts than threads, so that the last ones to end are short beside the whole.
constexpr int64_t kUnitsPerThread = 4;
constexpr int64_t kPartsPerThread = 8;
// What reading and widening a key costs, in queries: measured at heads of 64, about 16 where the
// pages come from memory and 2 where they come from the cache.
constexpr int64_t kReadCost = 12;

int64_t count_units(const AttentionArgs& args, int64_t group, int64_t queries_per_unit) {
  const int32_t* starts = args.sequence_starts.as<int32_t>();
  int64_t units = 0;
  for (int64_t s = 0; s < args.page_table.dim(0); ++s)
    units += divide_up((starts[s + 1] - starts[s]) * group, queries_per_unit);
  return units * (args.pages.dim(1) / 2);
}

int64_t cost_of(const AttentionUnit& unit) { return unit.tiles * (unit.queries + kReadCost); }

// The units of one key head, the tiles they see, and the cost of all of them.
int64_t list_units(const AttentionArgs& args, int64_t group, int64_t queries_per_unit,
                   std::vector<AttentionUnit>& units) {
  const int32_t* starts = args.sequence_starts.as<int32_t>();
  const int32_t* positions = args.positions.as<int32_t>();
  int64_t cost = 0;
  for (int64_t s = 0; s < args.page_table.dim(0); ++s) {
    const int64_t queries = (starts[s + 1] - starts[s]) * group;
    for (int64_t first = 0; first < queries; first += queries_per_unit) {
      AttentionUnit unit = {.sequence = static_cast<int32_t>(s), .first_query = first};
      unit.queries = std::min(queries_per_unit, queries - first);
      // Later rows never see less at the end nor more at the beginning.
      const int64_t last = (first + unit.queries - 1) / group;
      unit.first_tile =
          visible_keys(positions[starts[s] + first / group], args.window).begin / kAttentionTile;
      unit.tiles =
          divide_up(visible_keys(positions[starts[s] + last], args.window).end, kAttentionTile) -
          unit.first_tile;
      units.push_back(unit);
      cost += cost_of(unit);
    }
  }
  return cost;
}

}  // namespace

AttentionPlan plan_attention(const AttentionArgs& args, int threads) {
  const int64_t kv_heads = args.pages.dim(1) / 2;
  const int64_t size = args.pages.dim(3);
  const int64_t group = args.q.dim(1) / size / kv_heads;
  int64_t queries_per_unit = kUnitQueries;
  if (threads > 1) {
    while (queries_per_unit > kLeastQueries &&
           count_units(args, group, queries_per_unit) < threads * kUnitsPerThread) {
      queries_per_unit /= 2;
    }
  }
  std::vector<AttentionUnit> of_head;
  const int64_t cost = list_units(args, group, queries_per_unit, of_head) * kv_heads;
  const int64_t part_cost = cost / (threads * kPartsPerThread) + 1;
  for (AttentionUnit& unit : of_head) {
    if (threads > 1) unit.runs = std::min(unit.tiles, divide_up(cost_of(unit), part_cost));
  }
  std::stable_sort(of_head.begin(), of_head.end(), [](const auto& a, const auto& b) {
    return cost_of(a) * b.runs > cost_of(b) * a.runs;
  });

  AttentionPlan plan;
  plan.units.reserve(of_head.size() * static_cast<size_t>(kv_heads));
  for (AttentionUnit unit : of_head) {
    for (int64_t g = 0; g < kv_heads; ++g) {
      unit.kv_head = static_cast<int32_t>(g);
      const int32_t index = static_cast<int32_t>(plan.units.size());
      for (int64_t run = 0; run < unit.runs; ++run)
        plan.parts.push_back({index, static_cast<int32_t>(run)});
      if (unit.runs > 1) {
        unit.first_slot = plan.scratch_floats;
        plan.scratch_floats += unit.tiles * attention_slot_floats(unit.queries, size);
      }
      plan.units.push_back(unit);
    }
  }
  return plan;
}

}  // namespace ashlar
