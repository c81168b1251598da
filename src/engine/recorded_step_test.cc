// Which row counts are recorded, and which recording serves a step.
#include "engine/recorded_step.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

using List = std::vector<int64_t>;

StepPlan plan_of(int64_t sequences, int64_t count, int64_t drafts, bool logits = true) {
  StepPlan plan;
  for (int64_t s = 0; s < sequences; ++s) {
    SequenceRows r;
    r.count = count;
    r.drafts = drafts;
    r.wants_logits = logits;
    plan.rows.push_back(r);
  }
  return plan;
}

std::vector<RecordedStep> recordings(std::initializer_list<std::pair<int64_t, int64_t>> of) {
  std::vector<RecordedStep> list;
  for (const auto& [drafts, sequences] : of) {
    list.emplace_back();
    list.back().drafts = drafts;
    list.back().sequences = sequences;
  }
  return list;
}

TEST(RecordedSequences, PaddingAddsLessThanAQuarterBeyondEight) {
  EXPECT_EQ(recorded_sequences(1), (List{1}));
  EXPECT_EQ(recorded_sequences(5), (List{1, 2, 3, 4, 5}));
  EXPECT_EQ(recorded_sequences(16), (List{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16}));
  EXPECT_EQ(recorded_sequences(33),
            (List{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 33}));
  for (const int64_t most : {7, 64, 100, 1000, 1024, 4096}) {
    const List list = recorded_sequences(most);
    EXPECT_EQ(list.back(), most);
    for (size_t i = 1; i < list.size(); ++i) {
      EXPECT_GT(list[i], list[i - 1]);
      if (list[i] > 8) {
        EXPECT_LE(4 * list[i], 5 * (list[i - 1] + 1) + 4) << list[i];
      }
    }
    EXPECT_LE(list.size(), 48u);
  }
}

TEST(ChooseRecording, TheSmallestThatServes) {
  const auto list = recordings({{0, 1}, {0, 2}, {0, 4}, {3, 1}, {3, 4}});
  const auto chosen = [&](const StepPlan& plan) {
    return std::get<size_t>(choose_recording(list, plan));
  };
  EXPECT_EQ(chosen(plan_of(1, 1, 0)), 0u);
  EXPECT_EQ(chosen(plan_of(2, 1, 0)), 1u);
  EXPECT_EQ(chosen(plan_of(3, 1, 0)), 2u);
  EXPECT_EQ(chosen(plan_of(1, 4, 3)), 3u);
  EXPECT_EQ(chosen(plan_of(1, 2, 1)), 3u) << "fewer drafts than recorded";
  EXPECT_EQ(chosen(plan_of(2, 4, 3)), 4u);
  StepPlan mixed = plan_of(2, 1, 0);
  mixed.rows[1].count = 3;
  mixed.rows[1].drafts = 2;
  EXPECT_EQ(chosen(mixed), 4u);
}

TEST(ChooseRecording, SaysWhyNoneServes) {
  const auto list = recordings({{0, 1}, {0, 4}, {2, 2}});
  const auto reason = [&](const StepPlan& plan) {
    return std::get<DirectReason>(choose_recording(list, plan));
  };
  EXPECT_EQ(reason(plan_of(2, 16, 0)), DirectReason::kPromptRows);
  EXPECT_EQ(reason(plan_of(1, 1, 0, false)), DirectReason::kPromptRows) << "no logits wanted";
  StepPlan mixed = plan_of(2, 1, 0);
  mixed.rows[1].count = 5;
  EXPECT_EQ(reason(mixed), DirectReason::kPromptRows) << "one of them is a prompt";
  EXPECT_EQ(reason(plan_of(5, 1, 0)), DirectReason::kManySequences);
  EXPECT_EQ(reason(plan_of(3, 3, 2)), DirectReason::kManySequences);
  EXPECT_EQ(reason(plan_of(1, 4, 3)), DirectReason::kManyDrafts);
  EXPECT_EQ(std::get<DirectReason>(choose_recording({}, plan_of(1, 1, 0))),
            DirectReason::kNotRecording);
  for (int i = 0; i < kDirectReasons; ++i) {
    EXPECT_NE(direct_reason_name(static_cast<DirectReason>(i)), "?");
  }
}

TEST(StepCounts, SayWhatRanAsWhat) {
  StepCounts counts;
  EXPECT_EQ(step_counts_text(counts), "0 steps replayed, 0 direct");
  counts.recorded = {{1, 1, 18}, {2, 2, 0}, {4, 16, 3}};
  counts.direct[static_cast<size_t>(DirectReason::kPromptRows)] = 4;
  EXPECT_EQ(step_counts_text(counts),
            "21 steps replayed (sequences: 18 of 1, 3 of 4 in 16 rows), 4 direct (prompt rows 4)");
}

}  // namespace
}  // namespace ashlar
