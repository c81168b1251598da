// The reference of sample_tokens takes back from slots what slot_sampling() wrote there: it chooses
// what the Sampler chooses. count_tokens counts as the history does.
#include "sampling/sample_tokens.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "testing/random.h"
#include "testing/sample_batch.h"

namespace ashlar {
namespace {

TEST(SampleTokens, ReferenceEqualsTheSampler) {
  const std::unique_ptr<Device> device = new_cpu_device(1);
  const std::unique_ptr<Stream> stream = device->new_stream();
  const int64_t columns = 700;
  std::vector<SampleRow> rows(40);
  for (size_t i = 0; i < rows.size(); ++i) {
    SampleRow& row = rows[i];
    SamplingParams& p = row.state.params;
    p.temperature = i % 4 == 0 ? 0 : 0.37 * static_cast<double>(i);
    p.top_k = i % 5 == 0 ? 7 : 0;
    p.top_p = i % 2 == 0 ? 0.83 : 1.0;
    p.min_p = i % 3 == 0 ? 0.011 : 0.0;
    if (i % 2 == 1) p.logprobs = static_cast<int64_t>(i);
    if (i % 3 == 1) {
      p.repetition_penalty = 1.7;
      p.frequency_penalty = 0.4;
      row.prompt = {1, 2, 3, 699};
      row.output = {2, 9, 9};
      row.drafts = {9, 5};
      row.draft = static_cast<int32_t>(i % 3);
    }
    if (i % 7 == 0) p.logit_bias = {{4, 2.5f}, {600, -3.0f}, {4, 1.0f}};
    if (i % 6 == 0) row.allowed.assign(22, 0xaaaaaaaa);
    row.state.seed = i;
    row.state.end_tokens = {1, 5};
    row.state.end_allowed_from = static_cast<int64_t>(9 + i % 3);
    row.logits = random_floats(i, columns, 8.0f);
    if (i == 13) row.logits[3] = NAN;
  }
  std::vector<const SampleRow*> pointers = {nullptr};
  for (const SampleRow& row : rows) pointers.push_back(&row);
  const std::vector<ChosenToken> made = sample_on_device(*stream, pointers, columns);
  EXPECT_EQ(made[0].failure, 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    const ChosenToken wanted = sample_on_cpu(rows[i], columns);
    EXPECT_EQ(made[i + 1].failure, wanted.failure) << i;
    if (wanted.failure == 0) {
      EXPECT_EQ(made[i + 1].token, wanted.token) << i;
    }
  }
}

TEST(SampleTokens, CountsAreOfPromptAndOutputApart) {
  const std::unique_ptr<Device> device = new_cpu_device(1);
  const std::unique_ptr<Stream> stream = device->new_stream();
  std::vector<int32_t> tokens = {3, 3, 1, 3, 2, 2, 77, -1};
  std::vector<int32_t> counts(5, 99);
  count_tokens(*stream, {.tokens = TensorView(tokens.data(), DType::kI32, {8}),
                         .prompt_tokens = 3,
                         .counts = TensorView(counts.data(), DType::kI32, {5})});
  EXPECT_EQ(counts, (std::vector<int32_t>{0, kPromptToken, 2, kPromptToken | 1, 0}));
}

}  // namespace
}  // namespace ashlar
