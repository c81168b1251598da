// The row rule (testing/row_rule.h) for sampling: a sampler is reused from row to row and from
// request to request, and what it saw before changes no bit of the next token or its logprobs.
#include "testing/row_rule.h"

#include <gtest/gtest.h>

#include <vector>

#include "sampling/sampler.h"
#include "testing/random.h"

namespace ashlar {
namespace {

constexpr int64_t kColumns = 2000;

// Every kind of choice; rows take them in turn.
std::vector<SamplerState> states() {
  std::vector<SamplingParams> params(8);
  params[0].temperature = 0;
  params[2].top_p = 0.9;
  params[3].top_k = 40;
  params[3].top_p = 0.95;
  params[4].min_p = 0.1;
  params[5].repetition_penalty = 1.2;
  params[6].logit_bias = {{3, 20.0f}, {7, -20.0f}};
  params[7].temperature = 5;  // params[1] draws from everything
  std::vector<SamplerState> all(kRowRuleRows);
  for (size_t row = 0; row < all.size(); ++row) {
    all[row].params = params[row % params.size()];
    if (row % 3 != 0) all[row].params.logprobs = static_cast<int32_t>(row % 6);
    all[row].seed = row * 77;
    all[row].end_tokens = {1, 5};
    all[row].end_allowed_from = row % 2 == 0 ? 0 : 1000;
    for (int32_t token = 0; token < 30; ++token) all[row].history.add_output(token * 3);
  }
  return all;
}

TEST(RowRule, Sampler) {
  const std::vector<SamplerState> state = states();
  std::vector<float> logits = random_floats(1, kRowRuleRows * kColumns, 12.0f);
  Sampler reused(kColumns);
  const std::vector<float> padding(kColumns, -1.0f);
  expect_row_rule([&](Stream&, const std::vector<int>& rows) {
    std::vector<RowBytes> made;
    Sampler fresh(kColumns);
    for (const int row : rows) {
      if (row == kPaddingRow) {  // another request's row
        std::vector<float> x = padding;
        GeneratedToken token;
        EXPECT_EQ(reused.sample(state[2], x, 0, {}, token), SampleFailure::kNone);
        made.emplace_back();
        continue;
      }
      std::vector<float> x(logits.begin() + row * kColumns, logits.begin() + (row + 1) * kColumns);
      GeneratedToken token;
      Sampler& sampler = rows.size() == 1 ? fresh : reused;
      EXPECT_EQ(sampler.sample(state[static_cast<size_t>(row)], x, 100 + row, {}, token),
                SampleFailure::kNone);
      RowBytes bytes = bytes_of(&token.token, sizeof(token.token));
      const auto add = [&](const auto& value) {
        const RowBytes more = bytes_of(&value, sizeof(value));
        bytes.insert(bytes.end(), more.begin(), more.end());
      };
      add(token.logprob);
      for (const auto& top : token.top) {
        add(top.token);
        add(top.logprob);
      }
      add(row);  // two rows may well choose the same token
      made.push_back(bytes);
    }
    return made;
  });
}

}  // namespace
}  // namespace ashlar
