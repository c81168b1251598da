// The sampler against a naive one that sorts everything, and each rule on rows made for it.
#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/math/activation.h"
#include "sampling/philox.h"

namespace ashlar {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

uint64_t hash(uint64_t v) {
  v = (v ^ (v >> 31)) * 0x9E3779B97F4A7C15u;
  return v ^ (v >> 29);
}

// Logits like a model's: most far below the best. `step` > 0 rounds them, so that ties are
// frequent.
std::vector<float> logits_of(int64_t count, uint64_t seed, float width, float step) {
  std::vector<float> x(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    float sum = 0;
    for (uint64_t k = 0; k < 4; ++k) {
      sum += static_cast<float>(hash(seed * 1000003 + static_cast<uint64_t>(i) * 4 + k) >> 40) *
             0x1p-24f;
    }
    x[i] = (sum - 2.0f) * width;
    if (step > 0) x[i] = std::round(x[i] / step) * step;
  }
  return x;
}

// The definition, word for word, with a sort of everything.
int32_t naive(const SamplerState& state, std::vector<float> x, int64_t position,
              std::vector<int32_t>* kept) {
  const SamplingParams& p = state.params;
  for (const TokenBias& b : p.logit_bias) x[b.token] += b.bias;
  for (const auto& [token, count] : state.history.output_counts()) {
    float& v = x[token];
    const float r = static_cast<float>(p.repetition_penalty);
    v = v > 0 ? v / r : v * r;
    if (count > 0) {
      v -= static_cast<float>(p.frequency_penalty) * static_cast<float>(count) +
           static_cast<float>(p.presence_penalty);
    }
  }
  const float max = *std::max_element(x.begin(), x.end());
  std::vector<int32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return x[a] > x[b]; });
  if (p.temperature < 1e-5) return order[0];
  const float scale = static_cast<float>(1.4426950408889634 / p.temperature);
  std::vector<uint64_t> weight(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    weight[i] = static_cast<uint64_t>(
        std::nearbyint(static_cast<double>(exp2((x[i] - max) * scale)) * 0x1p40));
  }
  const auto sum = [&] {
    uint64_t s = 0;
    for (int32_t i : order) s += weight[i];
    return s;
  };
  if (p.top_k > 0 && p.top_k < static_cast<int64_t>(order.size())) order.resize(p.top_k);
  if (p.top_p < 1) {
    const uint64_t target = std::max<uint64_t>(1, std::ceil(p.top_p * static_cast<double>(sum())));
    uint64_t mass = 0;
    size_t n = 0;
    while (mass < target) mass += weight[order[n++]];
    order.resize(n);
  }
  std::erase_if(order,
                [&](int32_t i) { return static_cast<double>(weight[i]) < p.min_p * 0x1p40; });
  std::erase_if(order, [&](int32_t i) { return weight[i] == 0; });
  std::sort(order.begin(), order.end());
  if (kept != nullptr) *kept = order;
  const uint64_t bits = random_bits(state.seed, state.choice, position, RandomPurpose::kToken);
  uint64_t target = static_cast<uint64_t>(static_cast<unsigned __int128>(bits) * sum() >> 64);
  for (int32_t i : order) {
    if (target < weight[i]) return i;
    target -= weight[i];
  }
  return -1;
}

int32_t pick(Sampler& sampler, const SamplerState& state, std::vector<float> x,
             int64_t position = 7, std::span<const uint32_t> allowed = {}) {
  GeneratedToken token;
  const SampleFailure failure = sampler.sample(state, x, position, allowed, token);
  return failure == SampleFailure::kNone ? token.token : -1 - static_cast<int32_t>(failure);
}

TEST(Philox, EqualsThePublishedVectors) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Sampler, EqualsTheNaiveOneOnEveryRule) {
  const double temperatures[] = {0, 0.3, 1, 2.5, 20};
  const int64_t ks[] = {0, 1, 2, 7, 40, 900};
  const double ps[] = {1, 0.999, 0.9, 0.5, 0.01, 1e-9};
  const double mins[] = {0, 0.01, 0.3, 1};
  int64_t checked = 0;
  for (int64_t columns : {1, 15, 37, 512, 513, 2000}) {
    Sampler sampler(columns);
    for (float step : {0.0f, 0.5f}) {
      for (uint64_t i = 0; i < 120; ++i) {
        SamplerState state;
        const uint64_t h = hash(i * 77 + static_cast<uint64_t>(columns));
        state.seed = h;
        state.choice = static_cast<uint32_t>(i % 3);
        state.params.temperature = temperatures[h % 5];
        state.params.top_k = ks[(h >> 8) % 6];
        state.params.top_p = ps[(h >> 16) % 6];
        state.params.min_p = mins[(h >> 24) % 4];
        if (i % 2 == 0) {
          state.params.repetition_penalty = 1.4;
          state.params.presence_penalty = 0.7;
          state.params.frequency_penalty = -0.3;
          const int32_t last = static_cast<int32_t>(columns - 1);
          state.history.rebuild(std::vector<int32_t>{0, last / 2, last, last / 2, last / 2}, 2);
        }
        if (i % 5 == 0)
          state.params.logit_bias = {{0, 3.5f}, {static_cast<int32_t>(columns / 3), -2}};
        const std::vector<float> x = logits_of(columns, i, 12.0f, step);
        const int64_t position = static_cast<int64_t>(i * 31);
        EXPECT_EQ(pick(sampler, state, x, position), naive(state, x, position, nullptr))
            << columns << " columns, row " << i << ", T " << state.params.temperature << ", k "
            << state.params.top_k << ", p " << state.params.top_p << ", min " << state.params.min_p;
        ++checked;
      }
    }
  }
  EXPECT_EQ(checked, 6 * 2 * 120);
}

// Draws often enough to see the kept set itself, and how often each token comes.
TEST(Sampler, DrawsTheKeptTokensAsOftenAsTheyWeigh) {
  Sampler sampler(64);
  SamplerState state;
  state.params.temperature = 1.3;
  state.params.top_p = 0.8;
  state.seed = 5;
  const std::vector<float> x = logits_of(64, 3, 6.0f, 0.5f);
  std::vector<int32_t> kept;
  naive(state, x, 0, &kept);
  ASSERT_GT(kept.size(), 4u);
  std::vector<int64_t> counts(64);
  constexpr int64_t kDraws = 20000;
  for (int64_t position = 0; position < kDraws; ++position) {
    const int32_t token = pick(sampler, state, x, position);
    ASSERT_GE(token, 0);
    ++counts[token];
  }
  double sum = 0;
  for (int32_t token : kept) sum += std::exp(x[token] / 1.3);
  for (int32_t token = 0; token < 64; ++token) {
    const bool is_kept = std::find(kept.begin(), kept.end(), token) != kept.end();
    const double share = is_kept ? std::exp(x[token] / 1.3) / sum : 0;
    const double deviation = std::sqrt(share * (1 - share) * kDraws);
    EXPECT_NEAR(static_cast<double>(counts[token]), share * kDraws, 5 * deviation + 1e-9) << token;
  }
}

TEST(Sampler, NumbersDependOnSeedChoiceAndPosition) {
  Sampler sampler(1000);
  SamplerState state;
  const std::vector<float> flat(1000, 0.5f);
  const int32_t first = pick(sampler, state, flat, 10);
  EXPECT_EQ(pick(sampler, state, flat, 10), first);
  EXPECT_NE(pick(sampler, state, flat, 11), first);
  SamplerState other = state;
  other.seed = 1;
  EXPECT_NE(pick(sampler, other, flat, 10), first);
  other = state;
  other.choice = 1;
  EXPECT_NE(pick(sampler, other, flat, 10), first);
}

TEST(Sampler, PadColumnsAreNeverSeen) {
  // 40 decodable columns; the pad columns hold the maximum, and NaN.
  std::vector<float> x = logits_of(64, 1, 4.0f, 0);
  for (size_t i = 40; i < 64; ++i) x[i] = i % 2 == 0 ? 1000.0f : std::nanf("");
  const int32_t best =
      static_cast<int32_t>(std::max_element(x.begin(), x.begin() + 40) - x.begin());
  Sampler sampler(40);
  SamplerState state;
  state.params.logprobs = 40;
  for (double p : {1.0, 0.9, 1.0 / 64, 1e-12}) {
    state.params.top_p = p;
    std::vector<float> row = x;
    GeneratedToken token;
    ASSERT_EQ(sampler.sample(state, row, 3, {}, token), SampleFailure::kNone);
    EXPECT_LT(token.token, 40);
    if (p <= 1.0 / 64) {
      EXPECT_EQ(token.token, best);
    }
    double sum = 0;
    for (const TokenLogprob& t : token.top) sum += std::exp(t.logprob);
    EXPECT_NEAR(sum, 1.0, 1e-5) << "pad columns took part in the sum";
  }
  state.params.temperature = 0;
  EXPECT_EQ(pick(sampler, state, x), best);
}

TEST(Sampler, LogprobsAreOfTheLogitsBeforeBiasAndPenalties) {
  std::vector<float> x = {1.0f, 2.0f, 3.0f, 2.0f};
  Sampler sampler(4);
  SamplerState state;
  state.params.temperature = 0;
  state.params.logprobs = 3;
  state.params.logit_bias = {{0, 50.0f}};
  state.params.repetition_penalty = 2;
  state.history.rebuild(std::vector<int32_t>{0, 2}, 2);
  GeneratedToken token;
  ASSERT_EQ(sampler.sample(state, x, 9, {}, token), SampleFailure::kNone);
  EXPECT_EQ(token.token, 0);
  const double log_sum = std::log(std::exp(1.0) + 2 * std::exp(2.0) + std::exp(3.0));
  EXPECT_NEAR(token.logprob, 1.0 - log_sum, 1e-6);
  ASSERT_EQ(token.top.size(), 3u);
  EXPECT_EQ(token.top[0].token, 2);
  EXPECT_EQ(token.top[1].token, 1) << "ties go to the lower id";
  EXPECT_EQ(token.top[2].token, 3);
  EXPECT_NEAR(token.top[0].logprob, 3.0 - log_sum, 1e-6);
}

TEST(Sampler, MasksAndSuppressedEndTokens) {
  const std::vector<float> x = {5, 4, 3, 2, 1};
  Sampler sampler(5);
  SamplerState state;
  state.params.temperature = 0;
  state.end_tokens = {0, 1};
  state.end_allowed_from = 10;
  EXPECT_EQ(pick(sampler, state, x, 9), 2);
  EXPECT_EQ(pick(sampler, state, x, 10), 0);
  const uint32_t odd[] = {0xAAAAAAAA};
  EXPECT_EQ(pick(sampler, state, x, 10, odd), 1);
  EXPECT_EQ(pick(sampler, state, x, 9, odd), 3);
  const uint32_t nothing[] = {0};
  EXPECT_EQ(pick(sampler, state, x, 10, nothing),
            -1 - static_cast<int>(SampleFailure::kNothingAllowed));
}

TEST(Sampler, WhatIsNotFiniteFails) {
  Sampler sampler(700);
  SamplerState state;
  for (float bad : {std::nanf(""), kInfinity}) {
    for (size_t at : {0, 15, 16, 511, 512, 699}) {
      std::vector<float> x = logits_of(700, 2, 5.0f, 0);
      x[at] = bad;
      EXPECT_EQ(pick(sampler, state, x), -1 - static_cast<int>(SampleFailure::kNotFinite)) << at;
    }
  }
  std::vector<float> x = logits_of(700, 2, 5.0f, 0);
  x[3] = -kInfinity;
  EXPECT_GE(pick(sampler, state, x), 0);
  EXPECT_EQ(pick(sampler, state, std::vector<float>(700, -kInfinity)),
            -1 - static_cast<int>(SampleFailure::kNothingAllowed));
}

TEST(Sampler, RangesAreRefusedByName) {
  const auto message = [](auto change) {
    SamplingParams p;
    change(p);
    const Status status = p.validate(100);
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(message([](SamplingParams&) {}), "");
  EXPECT_EQ(message([](SamplingParams& p) { p.temperature = std::nan(""); }),
            "temperature: nan is out of range, 0 to 100");
  EXPECT_EQ(message([](SamplingParams& p) { p.top_k = -1; }),
            "top_k: -1 is out of range, 0 to 1000000000");
  EXPECT_EQ(message([](SamplingParams& p) { p.min_p = 1.01; }),
            "min_p: 1.01 is out of range, 0 to 1");
  EXPECT_EQ(message([](SamplingParams& p) { p.repetition_penalty = 0; }),
            "repetition_penalty: 0 is out of range, 0.01 to 100");
  EXPECT_EQ(message([](SamplingParams& p) { p.logit_bias = {{100, 0}}; }),
            "logit_bias: there is no token 100; ids are below 100");
  EXPECT_EQ(message([](SamplingParams& p) { p.logit_bias = {{1, kInfinity}}; }),
            "logit_bias: inf for token 1 is out of range, -1000 to 1000");
  EXPECT_EQ(*parse_token_bias("12=-1.5"), (TokenBias{12, -1.5f}));
  EXPECT_EQ(parse_token_bias("12").error().message,
            "logit_bias: '12' is not a token id, '=' and a number");
  EXPECT_FALSE(parse_token_bias("12=1x"));
}

// Not a bar that can fail on a busy machine; prints what a pick costs.
TEST(Sampler, Speed) {
  for (int64_t columns : {49152, 262144}) {
    Sampler sampler(columns);
    const std::vector<float> x = logits_of(columns, 9, 24.0f, 0);
    for (const char* what :
         {"greedy", "temperature", "top_p", "top_k 40", "flat top_p", "logprobs 5"}) {
      const std::string_view name = what;
      SamplerState state;
      if (name == "greedy" || name == "logprobs 5") state.params.temperature = 0;
      if (name == "top_p" || name == "flat top_p") state.params.top_p = 0.95;
      if (name == "flat top_p") state.params.temperature = 5;
      if (name == "top_k 40") state.params.top_k = 40;
      if (name == "logprobs 5") state.params.logprobs = 5;
      std::vector<float> row = x;
      GeneratedToken token;
      double best = 1e9;
      for (int64_t i = 0; i < 20; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        ASSERT_EQ(sampler.sample(state, row, i, {}, token), SampleFailure::kNone);
        best = std::min(
            best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      }
      std::printf("%7ld columns, %-12s %.3f ms\n", static_cast<long>(columns), what, best * 1e3);
    }
  }
}

}  // namespace
}  // namespace ashlar
