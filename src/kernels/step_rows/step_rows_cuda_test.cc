// resolve_rows and accept_tokens on the CUDA device write what their references write.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/step_rows/step_rows.h"
#include "testing/cuda_device.h"
#include "testing/device_tensors.h"
#include "testing/random.h"

namespace ashlar {
namespace {

constexpr int64_t kSlots = 90;
constexpr int64_t kDrafts = 3;
constexpr int64_t kColumns = 50;

// A random step of up to kSlots sequences, with padding at the end and padding sequences among
// them, whose entries point nowhere.
struct RandomStep {
  explicit RandomStep(uint64_t seed) {
    Random random(seed);
    starts_at.push_back(0);
    for (int32_t slot = 0; slot < kSlots; ++slot) {
      feed.push_back(static_cast<int32_t>(random.below(kColumns)));
      lengths.push_back(static_cast<int32_t>(random.below(1000)));
      counted.push_back(static_cast<int32_t>(random.below(2)));
      for (int64_t d = 0; d < kDrafts; ++d)
        drafts.push_back(static_cast<int32_t>(random.below(kColumns)));
      if (random.below(3) == 0) continue;
      add_sequence(random, slot);
      if (random.below(6) == 0) add_padding(random);
    }
    for (int i = 0; i < 5; ++i) {
      host_tokens.push_back(7);
      row_sequence.push_back(-1);
    }
    for (int64_t i = 0; i < kSlots * kColumns; ++i)
      counts.push_back(static_cast<int32_t>(random.below(3)));
  }

  void add_padding(Random& random) {
    const int32_t s = static_cast<int32_t>(slots.size());
    slots.push_back(-1);
    starts.push_back(1'000'000);
    first_output.push_back(1'000'000);
    draft_counts.push_back(kDrafts);
    const int64_t count = random.below(3);
    for (int64_t i = 0; i < count; ++i) {
      host_tokens.push_back(kFedToken);
      row_sequence.push_back(s);
    }
    starts_at.push_back(starts_at.back() + static_cast<int32_t>(count));
  }

  void add_sequence(Random& random, int32_t slot) {
    const int32_t s = static_cast<int32_t>(slots.size());
    slots.push_back(slot);
    const bool fed = random.below(2) == 0;
    const int64_t count = fed ? 1 + random.below(kDrafts + 1) : random.below(20);
    starts.push_back(random.below(4) == 0 ? static_cast<int32_t>(random.below(50)) : kKeepsLength);
    for (int64_t i = 0; i < count; ++i) {
      host_tokens.push_back(fed ? kFedToken : static_cast<int32_t>(random.below(kColumns)));
      row_sequence.push_back(s);
    }
    starts_at.push_back(starts_at.back() + static_cast<int32_t>(count));
    if (count == 0 || (!fed && random.below(2) == 0)) {
      first_output.push_back(kNoOutput);
      draft_counts.push_back(0);
      return;
    }
    first_output.push_back(static_cast<int32_t>(sampled.size()));
    draft_counts.push_back(fed ? static_cast<int32_t>(count) - 1 : 0);
    for (int32_t i = 0; i <= draft_counts.back(); ++i) {
      const int32_t draft = i < kDrafts ? drafts[slot * kDrafts + i] : 0;
      sampled.push_back(random.below(3) > 0 ? draft : static_cast<int32_t>(random.below(kColumns)));
      failures.push_back(random.below(8) == 0 ? 1 : 0);
    }
  }

  std::vector<int32_t> host_tokens, row_sequence, starts_at, slots, starts, feed, lengths, drafts,
      first_output, draft_counts, sampled, failures, counts, counted;
};

// What the two operations leave behind; `place` puts values where the stream's device finds them.
template <class Place, class Read>
std::vector<std::vector<int32_t>> run(Stream& stream, const RandomStep& step, const Place& place,
                                      const Read& read) {
  const int64_t rows = static_cast<int64_t>(step.host_tokens.size());
  const int64_t sequences = static_cast<int64_t>(step.slots.size());
  const std::vector<int32_t> unset(static_cast<size_t>(rows), -9);
  // A row in front of what slots keep: whatever is done for slot -1 shows there.
  const auto guarded = [&](std::vector<int32_t> values, Shape shape) {
    const int64_t row = static_cast<int64_t>(values.size()) / kSlots;
    values.insert(values.begin(), static_cast<size_t>(row), 12345);
    return place(values, shape);
  };
  const TensorView feed = guarded(step.feed, {kSlots + 1});
  const TensorView lengths = guarded(step.lengths, {kSlots + 1});
  const TensorView counts = guarded(step.counts, {kSlots + 1, kColumns});
  const TensorView counted = guarded(step.counted, {kSlots + 1});
  const TensorView drafts = guarded(step.drafts, {kSlots + 1, kDrafts});
  const ResolveRowsArgs resolve = {.host_tokens = place(step.host_tokens, {rows}),
                                   .row_sequence = place(step.row_sequence, {rows}),
                                   .sequence_starts = place(step.starts_at, {sequences + 1}),
                                   .slots = place(step.slots, {sequences}),
                                   .starts = place(step.starts, {sequences}),
                                   .feed = feed.slice_rows(1, kSlots),
                                   .lengths = lengths.slice_rows(1, kSlots),
                                   .drafts = drafts.slice_rows(1, kSlots),
                                   .tokens = place(unset, {rows}),
                                   .positions = place(unset, {rows})};
  resolve_rows(stream, resolve);
  const int64_t outputs = static_cast<int64_t>(step.sampled.size());
  const AcceptTokensArgs accept = {
      .slots = resolve.slots,
      .sequence_starts = resolve.sequence_starts,
      .first_output = place(step.first_output, {sequences}),
      .draft_counts = place(step.draft_counts, {sequences}),
      .sampled = place(step.sampled, {outputs}),
      .failures = place(step.failures, {outputs}),
      .feed = resolve.feed,
      .lengths = resolve.lengths,
      .drafts = resolve.drafts,
      .counts = counts.slice_rows(1, kSlots),
      .counted = counted.slice_rows(1, kSlots),
      .accepted = place(std::vector<int32_t>(static_cast<size_t>(sequences), -9), {sequences})};
  accept_tokens(stream, accept);
  std::vector<std::vector<int32_t>> made;
  for (const TensorView& view :
       {resolve.tokens, resolve.positions, feed, lengths, counts, accept.accepted}) {
    made.push_back(read(view));
  }
  return made;
}

TEST(StepRowsCuda, EqualTheirReferences) {
  ASHLAR_NEEDS_CUDA();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const RandomStep step(seed);
    const std::unique_ptr<Device> cpu = new_cpu_device(1);
    const std::unique_ptr<Stream> cpu_stream = cpu->new_stream();
    const std::unique_ptr<Stream> stream = cuda_device().new_stream();
    DeviceTensors host(*cpu_stream);
    DeviceTensors device(*stream);
    const auto runs = [&](Stream& on, DeviceTensors& tensors) {
      return run(
          on, step,
          [&](const std::vector<int32_t>& values, Shape shape) {
            return tensors.from(values, shape);
          },
          [&](const TensorView& view) { return tensors.read<int32_t>(view); });
    };
    EXPECT_EQ(runs(*stream, device), runs(*cpu_stream, host)) << seed;
  }
}

}  // namespace
}  // namespace ashlar
