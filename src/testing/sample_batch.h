// Batches of rows for sample_tokens, and what is chosen for them by the operation on a device and
// by the Sampler on the host. A row names what it asks for as a sequence would; here it becomes
// slots, lists and counts in device memory.
#ifndef ASHLAR_TESTING_SAMPLE_BATCH_H_
#define ASHLAR_TESTING_SAMPLE_BATCH_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "sampling/sample_tokens.h"
#include "testing/device_tensors.h"

namespace ashlar {

constexpr int64_t kSampleListRoom = 64;  // biases and end tokens of a slot
constexpr int64_t kSampleTopRoom = 100;
constexpr int64_t kSampleDrafts = 2;

// One row of a batch and what it asks for.
struct SampleRow {
  SamplerState state;
  std::vector<float> logits;  // any number of columns, at least the decodable ones
  int32_t position = 10;
  int32_t draft = 0;  // so many of the drafts below come before it
  std::vector<int32_t> drafts = {0, 0};
  std::vector<uint32_t> allowed;  // empty: everything
  std::vector<int32_t> prompt;    // for penalties
  std::vector<int32_t> output;
};

struct ChosenToken {
  int32_t failure = 0;
  GeneratedToken token;
};

inline ChosenToken sample_on_cpu(const SampleRow& row, int64_t decodable) {
  Sampler sampler(decodable);
  SamplerState state = row.state;
  std::vector<int32_t> tokens = row.prompt;
  tokens.insert(tokens.end(), row.output.begin(), row.output.end());
  tokens.insert(tokens.end(), row.drafts.begin(), row.drafts.begin() + row.draft);
  if (state.penalties()) state.history.rebuild(tokens, static_cast<int64_t>(row.prompt.size()));
  std::vector<float> x = row.logits;
  ChosenToken chosen;
  chosen.failure =
      static_cast<int32_t>(sampler.sample(state, x, row.position, row.allowed, chosen.token));
  return chosen;
}

// A batch as the host prepares it. Row r uses slot slots - 1 - r, so that neither stands for the
// other.
struct SampleBatch {
  SampleBatch(const std::vector<const SampleRow*>& rows, int64_t decodable_columns)
      : count(static_cast<int64_t>(rows.size())),
        decodable(decodable_columns),
        words((decodable + 31) / 32) {
    for (const SampleRow* row : rows) {
      if (row != nullptr) columns = row->logits.size();
    }
    slots.resize(rows.size() * sizeof(SlotSampling));
    bias_tokens.resize(rows.size() * kSampleListRoom);
    bias_values.resize(rows.size() * kSampleListRoom);
    ends.resize(rows.size() * kSampleListRoom);
    drafts.resize(rows.size() * kSampleDrafts);
    positions.resize(rows.size() * 2);
    for (const SampleRow* row : rows) add(row);
  }

  void add(const SampleRow* row) {
    const int64_t r = static_cast<int64_t>(row_slot.size());
    const int64_t slot = count - 1 - r;
    constexpr int32_t kFar = 1'000'000'000;  // of padding nothing but the slot is read
    output_rows.push_back(row == nullptr ? kFar : static_cast<int32_t>(2 * r + 1));
    row_slot.push_back(row == nullptr ? -1 : static_cast<int32_t>(slot));
    row_draft.push_back(row == nullptr ? kFar : row->draft);
    row_mask.push_back(row == nullptr ? kFar : -1);
    if (row == nullptr) {
      logits.insert(logits.end(), columns, NAN);
      return;
    }
    const auto list_of = [slot](auto& values) {
      return std::span(values).subspan(static_cast<size_t>(slot * kSampleListRoom),
                                       kSampleListRoom);
    };
    const SlotSampling sampling =
        slot_sampling(row->state, list_of(bias_tokens), list_of(bias_values), list_of(ends));
    std::memcpy(&slots[static_cast<size_t>(slot) * sizeof(sampling)], &sampling, sizeof(sampling));
    penalties = penalties || sampling.penalties != 0;
    positions[static_cast<size_t>(2 * r + 1)] = row->position - 1;
    for (int64_t d = 0; d < kSampleDrafts; ++d) drafts[slot * kSampleDrafts + d] = row->drafts[d];
    if (!row->allowed.empty()) {
      row_mask.back() = static_cast<int32_t>(static_cast<int64_t>(masks.size()) / words);
      for (const uint32_t word : row->allowed) masks.push_back(static_cast<int32_t>(word));
    }
    EXPECT_EQ(row->logits.size(), columns);
    logits.insert(logits.end(), row->logits.begin(), row->logits.end());
  }

  int64_t count;
  int64_t decodable;
  int64_t words;
  size_t columns = 0;
  bool penalties = false;
  std::vector<uint8_t> slots;
  std::vector<int32_t> bias_tokens, ends, drafts, positions, masks;
  std::vector<int32_t> row_slot, row_draft, row_mask, output_rows;
  std::vector<float> bias_values, logits;
};

inline TensorView upload_counts(DeviceTensors& tensors, Stream& stream,
                                const std::vector<const SampleRow*>& rows, int64_t decodable) {
  const int64_t count = static_cast<int64_t>(rows.size());
  const TensorView counts = tensors.make(DType::kI32, {count, decodable});
  for (int64_t r = 0; r < count; ++r) {
    const SampleRow* row = rows[static_cast<size_t>(r)];
    if (row == nullptr) continue;
    std::vector<int32_t> tokens = row->prompt;
    tokens.insert(tokens.end(), row->output.begin(), row->output.end());
    count_tokens(stream, {.tokens = tensors.from(tokens),
                          .prompt_tokens = static_cast<int64_t>(row->prompt.size()),
                          .counts = TensorView(counts.row<int32_t>(count - 1 - r), DType::kI32,
                                               {decodable})});
  }
  return counts;
}

inline SampleTokensArgs upload_samples(DeviceTensors& tensors, Stream& stream,
                                       const std::vector<const SampleRow*>& rows,
                                       int64_t decodable) {
  const SampleBatch host(rows, decodable);
  const int64_t count = host.count;
  SampleTokensArgs args;
  args.logits = tensors.from(host.logits, {count, static_cast<int64_t>(host.columns)});
  args.decodable = decodable;
  args.slots = tensors.from(host.slots, {count, static_cast<int64_t>(sizeof(SlotSampling))});
  args.bias_tokens = tensors.from(host.bias_tokens, {count, kSampleListRoom});
  args.bias_values = tensors.from(host.bias_values, {count, kSampleListRoom});
  args.end_tokens = tensors.from(host.ends, {count, kSampleListRoom});
  if (host.penalties) args.counts = upload_counts(tensors, stream, rows, decodable);
  args.row_slot = tensors.from(host.row_slot);
  args.row_draft = tensors.from(host.row_draft);
  args.row_mask = tensors.from(host.row_mask);
  if (!host.masks.empty()) {
    args.masks = tensors.from(host.masks,
                              {static_cast<int64_t>(host.masks.size()) / host.words, host.words});
  }
  args.drafts = tensors.from(host.drafts, {count, kSampleDrafts});
  args.output_rows = tensors.from(host.output_rows);
  args.positions = tensors.from(host.positions);
  args.tokens = tensors.make(DType::kI32, {count});
  args.failures = tensors.make(DType::kI32, {count});
  args.logprobs = tensors.make(DType::kF32, {count});
  args.top_tokens = tensors.make(DType::kI32, {count, kSampleTopRoom});
  args.top_logprobs = tensors.make(DType::kF32, {count, kSampleTopRoom});
  return args;
}

inline std::vector<ChosenToken> sample_on_device(Stream& stream,
                                                 const std::vector<const SampleRow*>& rows,
                                                 int64_t decodable) {
  DeviceTensors tensors(stream);
  const SampleTokensArgs args = upload_samples(tensors, stream, rows, decodable);
  sample_tokens(stream, args);
  const std::vector<int32_t> tokens = tensors.read<int32_t>(args.tokens);
  const std::vector<int32_t> failures = tensors.read<int32_t>(args.failures);
  const std::vector<float> logprobs = tensors.read<float>(args.logprobs);
  const std::vector<int32_t> top_tokens = tensors.read<int32_t>(args.top_tokens);
  const std::vector<float> top_logprobs = tensors.read<float>(args.top_logprobs);
  std::vector<ChosenToken> all(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    all[r].failure = failures[r];
    all[r].token.token = tokens[r];
    if (rows[r] == nullptr || !rows[r]->state.params.logprobs || failures[r] != 0) continue;
    all[r].token.logprob = logprobs[r];
    const int64_t top = std::min<int64_t>(*rows[r]->state.params.logprobs, decodable);
    for (int64_t i = 0; i < top; ++i) {
      const size_t at = r * kSampleTopRoom + static_cast<size_t>(i);
      all[r].token.top.push_back({top_tokens[at], top_logprobs[at]});
    }
  }
  return all;
}

}  // namespace ashlar

#endif  // ASHLAR_TESTING_SAMPLE_BATCH_H_
