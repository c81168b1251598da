// How attention calls are cut: every tile of every query is in exactly one part, all threads have
// work wherever there is enough, and long parts come first.
#include "kernels/attention/attention_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>
#include <vector>

#include "base/align.h"
#include "kernels/attention/attention_parts.h"

namespace ashlar {
namespace {

struct Rows {
  int64_t begin;  // position of the first row
  int64_t count;
};

// A call without data: the plan reads shapes, positions and starts alone.
struct Call {
  Call(int64_t heads, int64_t kv_heads, int64_t window, const std::vector<Rows>& sequences) {
    for (const Rows& rows : sequences) {
      for (int64_t t = 0; t < rows.count; ++t)
        positions.push_back(static_cast<int32_t>(rows.begin + t));
      starts.push_back(static_cast<int32_t>(positions.size()));
    }
    const int64_t row_count = static_cast<int64_t>(positions.size());
    const int64_t sequence_count = static_cast<int64_t>(sequences.size());
    args.q = TensorView(nullptr, DType::kF32, {row_count, heads * 64});
    args.pages = TensorView(nullptr, DType::kF16, {1000, 2 * kv_heads, 32, 64});
    args.page_table = TensorView(nullptr, DType::kI32, {sequence_count, 100});
    args.positions = TensorView(positions.data(), DType::kI32, {row_count});
    args.sequence_starts = TensorView(starts.data(), DType::kI32, {sequence_count + 1});
    args.window = window;
  }
  Call(const Call&) = delete;

  std::vector<int32_t> positions;
  std::vector<int32_t> starts = {0};
  AttentionArgs args;
};

int64_t tiles_of(const AttentionPlan& plan, const AttentionPart& part) {
  const AttentionUnit& unit = plan.units[static_cast<size_t>(part.unit)];
  return (part.run + 1) * unit.tiles / unit.runs - part.run * unit.tiles / unit.runs;
}

void expect_whole(const Call& call, int64_t heads, int64_t kv_heads, int threads) {
  const AttentionPlan plan = plan_attention(call.args, threads);
  const int64_t group = heads / kv_heads;
  // (sequence, key head, query, tile) -> times it is computed.
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, int> seen;
  std::map<int64_t, std::vector<int>> runs;
  for (const AttentionPart& part : plan.parts) {
    const AttentionUnit& unit = plan.units[static_cast<size_t>(part.unit)];
    ASSERT_LE(unit.queries, kUnitQueries);
    ASSERT_GT(tiles_of(plan, part), 0);
    runs[part.unit].resize(static_cast<size_t>(unit.runs));
    ++runs[part.unit][static_cast<size_t>(part.run)];
    for (int64_t i = 0; i < unit.queries; ++i) {
      for (int64_t tile = part.run * unit.tiles / unit.runs;
           tile < (part.run + 1) * unit.tiles / unit.runs; ++tile) {
        ++seen[{unit.sequence, unit.kv_head, unit.first_query + i, unit.first_tile + tile}];
      }
    }
  }
  for (const auto& [unit, counts] : runs) EXPECT_EQ(counts, std::vector<int>(counts.size(), 1));
  for (size_t s = 0; s + 1 < call.starts.size(); ++s) {
    for (int32_t row = call.starts[s]; row < call.starts[s + 1]; ++row) {
      const KeyRange keys =
          visible_keys(call.positions[static_cast<size_t>(row)], call.args.window);
      for (int64_t query = 0; query < group; ++query) {
        for (int64_t g = 0; g < kv_heads; ++g) {
          for (int64_t tile = keys.begin / kAttentionTile;
               tile < divide_up(keys.end, kAttentionTile); ++tile) {
            const int64_t index = (row - call.starts[s]) * group + query;
            EXPECT_EQ((seen[{static_cast<int64_t>(s), g, index, tile}]), 1);
          }
        }
      }
    }
  }
}

TEST(AttentionPlan, ComputesEveryTileOnce) {
  for (const int threads : {1, 2, 7}) {
    for (const int64_t window : {0, 40, 512}) {
      const std::vector<Rows> mixed = {{0, 1}, {900, 1}, {300, 70}, {0, 0}, {127, 3}};
      expect_whole(Call(9, 3, window, mixed), 9, 3, threads);
      expect_whole(Call(4, 1, window, {{2047, 1}}), 4, 1, threads);
      expect_whole(Call(200, 1, window, {{140, 2}}), 200, 1, threads);
      expect_whole(Call(2, 2, window, {{0, 500}}), 2, 2, threads);
    }
  }
}

TEST(AttentionPlan, OneDecodingSequenceKeepsEveryThreadBusy) {
  const Call call(4, 1, 0, {{2047, 1}});
  for (const int threads : {1, 2, 4}) {
    const AttentionPlan plan = plan_attention(call.args, threads);
    int64_t longest = 0;
    for (const AttentionPart& part : plan.parts) longest = std::max(longest, tiles_of(plan, part));
    EXPECT_LE(longest * threads, 16);  // its tiles
    EXPECT_EQ(plan.scratch_floats > 0, threads > 1);
  }
}

TEST(AttentionPlan, LongPartsComeFirst) {
  // 8 decoding sequences beside a chunk of a prompt.
  std::vector<Rows> sequences;
  for (int64_t s = 0; s < 8; ++s) sequences.push_back({100 * s, 1});
  sequences.push_back({512, 256});
  const Call call(9, 3, 0, sequences);
  const AttentionPlan plan = plan_attention(call.args, 2);
  EXPECT_EQ(plan.units[static_cast<size_t>(plan.parts.front().unit)].sequence, 8);
  int64_t last = INT64_MAX;
  for (const AttentionPart& part : plan.parts) {
    const AttentionUnit& unit = plan.units[static_cast<size_t>(part.unit)];
    if (unit.sequence == 8) {
      EXPECT_LE(unit.tiles, last);
      last = unit.tiles;
    }
  }
}

TEST(AttentionPlan, ManySequencesAreNotCut) {
  std::vector<Rows> sequences(64, Rows{511, 1});
  const Call call(9, 3, 0, sequences);
  const AttentionPlan plan = plan_attention(call.args, 2);
  EXPECT_EQ(plan.parts.size(), 64u * 3);
  EXPECT_EQ(plan.scratch_floats, 0);
}

}  // namespace
}  // namespace ashlar
