// resolve_rows and accept_tokens on a step made by hand: a prompt that starts, a sequence that is
// fed with a draft, one without output, and padding.
#include "kernels/step_rows/step_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace ashlar {
namespace {

TensorView view(std::vector<int32_t>& values) {
  return TensorView(values.data(), DType::kI32, {static_cast<int64_t>(values.size())});
}
TensorView view(std::vector<int32_t>& values, int64_t rows) {
  return TensorView(values.data(), DType::kI32, {rows, static_cast<int64_t>(values.size()) / rows});
}

struct Fixture {
  std::unique_ptr<Device> device = new_cpu_device(1);
  std::unique_ptr<Stream> stream = device->new_stream();
  std::vector<int32_t> slots = {2, 0, 1};
  std::vector<int32_t> sequence_starts = {0, 2, 4, 5};
  std::vector<int32_t> feed = {70, 71, 72};
  std::vector<int32_t> lengths = {10, 20, 30};
  std::vector<int32_t> drafts = {5, 6, 7};  // one a slot

  // What accept_tokens says of the three sequences; the second has two output rows.
  std::vector<int32_t> accept(std::vector<int32_t> sampled, std::vector<int32_t> failures) {
    std::vector<int32_t> first_output = {0, 1, kNoOutput};
    std::vector<int32_t> draft_counts = {0, 1, 0};
    std::vector<int32_t> accepted(3, -9);
    accept_tokens(*stream, {.slots = view(slots),
                            .sequence_starts = view(sequence_starts),
                            .first_output = view(first_output),
                            .draft_counts = view(draft_counts),
                            .sampled = view(sampled),
                            .failures = view(failures),
                            .feed = view(feed),
                            .lengths = view(lengths),
                            .drafts = view(drafts, 3),
                            .counts = view(counts, 3),
                            .counted = view(counted),
                            .accepted = view(accepted)});
    return accepted;
  }
  std::vector<int32_t> counts = std::vector<int32_t>(3 * 10);
  std::vector<int32_t> counted = {1, 1, 0};
};

using Ints = std::vector<int32_t>;

TEST(StepRows, TokensAndPositionsComeFromTheSlots) {
  Fixture f;
  Ints host_tokens = {3, 4, kFedToken, kFedToken, 8, 9};
  Ints row_sequence = {0, 0, 1, 1, 2, -1};
  Ints starts = {100, kKeepsLength, kKeepsLength};
  Ints tokens(6, -9);
  Ints positions(6, -9);
  resolve_rows(*f.stream, {.host_tokens = view(host_tokens),
                           .row_sequence = view(row_sequence),
                           .sequence_starts = view(f.sequence_starts),
                           .slots = view(f.slots),
                           .starts = view(starts),
                           .feed = view(f.feed),
                           .lengths = view(f.lengths),
                           .drafts = view(f.drafts, 3),
                           .tokens = view(tokens),
                           .positions = view(positions)});
  EXPECT_EQ(tokens, (Ints{3, 4, 70, 5, 8, 0}));
  EXPECT_EQ(positions, (Ints{100, 101, 10, 11, 20, 0}));
  EXPECT_EQ(f.lengths, (Ints{10, 20, 100}));
}

// What a recorded step of fixed size holds beyond the sequences of this one: indices of padding
// point far outside everything.
TEST(StepRows, PaddingIsNeitherReadNorWritten) {
  constexpr int32_t kFar = 1'000'000'000;
  Fixture f;
  // A row in front of what slots keep: whatever is done for slot -1 shows there.
  f.feed.insert(f.feed.begin(), 79);
  f.lengths.insert(f.lengths.begin(), 99);
  f.drafts.insert(f.drafts.begin(), 9);
  f.counted.insert(f.counted.begin(), 1);
  f.counts.resize(4 * 10);
  const auto behind = [](const TensorView& all) { return all.slice_rows(1, 3); };
  f.slots = {-1, 1, -1, -1};
  f.sequence_starts = {0, 2, 4, 5, 5};
  Ints host_tokens = {kFedToken, 4, kFedToken, 6, 7};
  Ints row_sequence = {0, 0, 1, 1, 2};
  Ints starts = {kFar, kKeepsLength, kFar, kFar};
  Ints tokens(5, -9);
  Ints positions(5, -9);
  resolve_rows(*f.stream, {.host_tokens = view(host_tokens),
                           .row_sequence = view(row_sequence),
                           .sequence_starts = view(f.sequence_starts),
                           .slots = view(f.slots),
                           .starts = view(starts),
                           .feed = behind(view(f.feed)),
                           .lengths = behind(view(f.lengths)),
                           .drafts = behind(view(f.drafts, 4)),
                           .tokens = view(tokens),
                           .positions = view(positions)});
  EXPECT_EQ(tokens, (Ints{0, 0, 71, 6, 0}));
  EXPECT_EQ(positions, (Ints{0, 0, 20, 21, 0}));
  EXPECT_EQ(f.lengths, (Ints{99, 10, 20, 30}));

  Ints first_output = {kFar, 0, 0, kFar};
  Ints draft_counts = {kFar, 0, 1, kFar};
  Ints sampled = {9};
  Ints failures = {0};
  Ints accepted(4, -9);
  accept_tokens(*f.stream, {.slots = view(f.slots),
                            .sequence_starts = view(f.sequence_starts),
                            .first_output = view(first_output),
                            .draft_counts = view(draft_counts),
                            .sampled = view(sampled),
                            .failures = view(failures),
                            .feed = behind(view(f.feed)),
                            .lengths = behind(view(f.lengths)),
                            .drafts = behind(view(f.drafts, 4)),
                            .counts = behind(view(f.counts, 4)),
                            .counted = behind(view(f.counted)),
                            .accepted = view(accepted)});
  EXPECT_EQ(accepted, (Ints{0, 1, 0, 0}));
  EXPECT_EQ(f.feed, (Ints{79, 70, 9, 72}));
  EXPECT_EQ(f.lengths, (Ints{99, 10, 22, 30}));
  EXPECT_EQ(f.counts[2 * 10 + 9], 1);
  EXPECT_EQ(std::count(f.counts.begin(), f.counts.end(), 0), 39);
}

// Chunks of prompts: no output row in the whole step. The last sequence has no rows but a start.
TEST(StepRows, SequencesWithoutOutputOnlyAdvance) {
  Fixture f;
  f.sequence_starts = {0, 5, 12, 12};
  Ints host_tokens(12, 3);
  Ints row_sequence = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1};
  Ints starts = {kKeepsLength, 100, 40};
  Ints tokens(12, -9);
  Ints positions(12, -9);
  resolve_rows(*f.stream, {.host_tokens = view(host_tokens),
                           .row_sequence = view(row_sequence),
                           .sequence_starts = view(f.sequence_starts),
                           .slots = view(f.slots),
                           .starts = view(starts),
                           .feed = view(f.feed),
                           .lengths = view(f.lengths),
                           .drafts = view(f.drafts, 3),
                           .tokens = view(tokens),
                           .positions = view(positions)});
  EXPECT_EQ(positions, (Ints{30, 31, 32, 33, 34, 100, 101, 102, 103, 104, 105, 106}));
  EXPECT_EQ(f.lengths, (Ints{100, 40, 30}));

  Ints first_output(3, kNoOutput);
  Ints draft_counts = {0, 7, 0};  // without output they mean nothing
  Ints none;
  Ints accepted(3, -9);
  accept_tokens(*f.stream, {.slots = view(f.slots),
                            .sequence_starts = view(f.sequence_starts),
                            .first_output = view(first_output),
                            .draft_counts = view(draft_counts),
                            .sampled = view(none),
                            .failures = view(none),
                            .feed = view(f.feed),
                            .lengths = view(f.lengths),
                            .drafts = view(f.drafts, 3),
                            .counts = view(f.counts, 3),
                            .counted = view(f.counted),
                            .accepted = view(accepted)});
  EXPECT_EQ(accepted, (Ints{0, 0, 0}));
  EXPECT_EQ(f.feed, (Ints{70, 71, 72}));
  EXPECT_EQ(f.lengths, (Ints{107, 40, 35}));
  EXPECT_EQ(std::count(f.counts.begin(), f.counts.end(), 0), 30);
}

TEST(StepRows, ADraftStaysIfItIsTheTokenSampledBeforeIt) {
  Fixture right;
  EXPECT_EQ(right.accept({1, 5, 9}, {0, 0, 0}), (Ints{1, 2, 0}));
  EXPECT_EQ(right.feed, (Ints{9, 71, 1}));
  EXPECT_EQ(right.lengths, (Ints{12, 21, 32}));
  EXPECT_EQ(right.counts[5], 1);
  EXPECT_EQ(right.counts[9], 1);
  EXPECT_EQ(right.counts[2 * 10 + 1], 0) << "a slot that is not counted";
  Fixture wrong;
  EXPECT_EQ(wrong.accept({1, 4, 9}, {0, 0, 0}), (Ints{1, 1, 0}));
  EXPECT_EQ(wrong.feed, (Ints{4, 71, 1}));
  EXPECT_EQ(wrong.lengths, (Ints{11, 21, 32}));
  EXPECT_EQ(wrong.counts[9], 0);
}

TEST(StepRows, AFailureTakesTheWholeSequence) {
  Fixture f;
  EXPECT_EQ(f.accept({1, 5, 9}, {0, 0, 1}), (Ints{1, 0, 0}));
  EXPECT_EQ(f.feed, (Ints{0, 71, 1}));
  Fixture late;
  EXPECT_EQ(late.accept({1, 4, 9}, {0, 0, 1}), (Ints{1, 1, 0})) << "of a row that does not count";
}

}  // namespace
}  // namespace ashlar
