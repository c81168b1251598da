// sample_tokens on the CUDA device against the Sampler: the same tokens always, since weights are
// integers on both; logprobs within 1e-5 (the two logarithms may differ in the last place of a
// double).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "sampling/sample_tokens.h"
#include "testing/cuda_row_rule.h"
#include "testing/random.h"
#include "testing/sample_batch.h"
#include "testing/timing_cuda.h"

namespace ashlar {
namespace {

using Row = SampleRow;
using Chosen = ChosenToken;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Sums of four uniform numbers, as logits of a model are: most far below the best. step > 0 rounds
// them, so that ties are frequent.
std::vector<float> logits_like(uint64_t seed, int64_t count, float width, float step) {
  Random random(seed);
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x) {
    v = random.symmetric(width) + random.symmetric(width) + random.symmetric(width) +
        random.symmetric(width);
    if (step > 0) v = std::round(v / step) * step;
  }
  return x;
}

Chosen on_device(const Row& row, int64_t decodable) {
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  return sample_on_device(*stream, {&row}, decodable).at(0);
}

void expect_same(const Chosen& made, const Chosen& wanted) {
  ASSERT_EQ(made.failure, wanted.failure);
  if (wanted.failure != 0) return;
  ASSERT_EQ(made.token.token, wanted.token.token);
  // -inf is a logprob, too
  const auto near = [](float a, float b) { return a == b || std::abs(a - b) <= 1e-5f; };
  ASSERT_TRUE(near(made.token.logprob, wanted.token.logprob))
      << made.token.logprob << " against " << wanted.token.logprob;
  ASSERT_EQ(made.token.top.size(), wanted.token.top.size());
  for (size_t i = 0; i < wanted.token.top.size(); ++i) {
    ASSERT_EQ(made.token.top[i].token, wanted.token.top[i].token) << "alternative " << i;
    ASSERT_TRUE(near(made.token.top[i].logprob, wanted.token.top[i].logprob))
        << made.token.top[i].logprob << " against " << wanted.token.top[i].logprob;
  }
}

// Every rule in turn, and mixtures of them.
Row random_row(uint64_t seed, int64_t columns, int64_t decodable, float step) {
  const double temperatures[] = {0, 0.3, 1, 2.5, 20};
  const int64_t ks[] = {0, 1, 2, 7, 40, 900};
  const double ps[] = {1, 0.999, 0.9, 0.5, 0.01, 1e-9};
  const double mins[] = {0, 0, 0.01, 0.3, 1};
  Random random(seed);
  Row row;
  row.state.seed = random.next();
  row.state.choice = static_cast<uint32_t>(random.below(3));
  row.position = static_cast<int32_t>(1 + random.below(5000));
  SamplingParams& p = row.state.params;
  p.temperature = temperatures[random.below(5)];
  p.top_k = ks[random.below(6)];
  p.top_p = ps[random.below(6)];
  p.min_p = mins[random.below(5)];
  if (random.below(2) == 0)
    p.logprobs = random.below(2) == 0 ? 0 : random.below(kSampleTopRoom + 1);
  const auto any = [&] { return static_cast<int32_t>(random.below(decodable)); };
  if (random.below(2) == 0) {
    p.repetition_penalty = 1.4;
    p.presence_penalty = random.below(2) == 0 ? 0.7 : 0;
    p.frequency_penalty = -0.3;
    for (int i = 0; i < 40; ++i) row.prompt.push_back(any());
    for (int i = 0; i < 60; ++i) row.output.push_back(i % 3 == 0 ? row.prompt[i / 3] : any());
    row.drafts = {any(), row.output[3]};
    row.draft = static_cast<int32_t>(random.below(3));
  }
  if (random.below(3) == 0) {
    for (int i = 0; i < 20; ++i) p.logit_bias.push_back({any(), random.symmetric(5.0f)});
    p.logit_bias.push_back(p.logit_bias[2]);  // the same token again
  }
  if (random.below(4) == 0) {
    for (int64_t w = 0; w < (decodable + 31) / 32; ++w)
      row.allowed.push_back(static_cast<uint32_t>(random.next()) | (w == 0 ? 1u : 0u));
  }
  for (int i = 0; i < 3; ++i) row.state.end_tokens.push_back(any());
  row.state.end_allowed_from = row.position + static_cast<int64_t>(random.below(3)) - 1;
  row.logits = logits_like(seed + 1, columns, 6.0f, step);
  for (int64_t c = decodable; c < columns; ++c) row.logits[c] = c % 2 == 0 ? 1e4f : NAN;
  // The best token may well be an end that is suppressed.
  if (random.below(3) == 0) row.logits[row.state.end_tokens[0]] = 60.0f;
  return row;
}

struct Width {
  int64_t decodable;
  int64_t columns;
};

void expect_equal_to_the_sampler(const Width& w, int64_t count) {
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  for (const float step : {0.0f, 0.5f}) {
    std::vector<Row> rows;
    for (int64_t i = 0; i < count; ++i) {
      rows.push_back(
          random_row(static_cast<uint64_t>(i * 977 + w.decodable), w.columns, w.decodable, step));
    }
    std::vector<const Row*> pointers;
    for (const Row& row : rows) pointers.push_back(&row);
    const std::vector<Chosen> made = sample_on_device(*stream, pointers, w.decodable);
    for (size_t i = 0; i < rows.size(); ++i) {
      SCOPED_TRACE(testing::Message()
                   << w.decodable << " columns, step " << step << ", row " << i << ", T "
                   << rows[i].state.params.temperature << ", k " << rows[i].state.params.top_k
                   << ", p " << rows[i].state.params.top_p << ", min " << rows[i].state.params.min_p
                   << ", logprobs " << rows[i].state.params.logprobs.value_or(-1));
      ASSERT_NO_FATAL_FAILURE(expect_same(made[i], sample_on_cpu(rows[i], w.decodable)));
    }
  }
}

TEST(SampleTokensCuda, EqualsTheSamplerOnEveryRule) {
  ASHLAR_NEEDS_CUDA();
  for (const Width w : {Width{1, 128},
                        {15, 128},
                        {37, 128},
                        {512, 512},
                        {513, 640},
                        {2000, 2048},
                        {32768, 32768},
                        {151669, 151936},
                        {248077, 248192}}) {
    ASSERT_NO_FATAL_FAILURE(expect_equal_to_the_sampler(w, w.decodable > 100000 ? 24 : 60));
  }
}

// The same over sizes that are done soon under compute-sanitizer (tools/gpu_sanitize.sh): few rows,
// which clusters of 16 CTAs serve, and more.
TEST(SampleTokensCuda, SmallRowsEqualTheSampler) {
  ASHLAR_NEEDS_CUDA();
  for (const Width w : {Width{1, 128}, {37, 128}, {513, 640}, {2000, 2048}}) {
    for (const int64_t count : {3, 14}) {
      ASSERT_NO_FATAL_FAILURE(expect_equal_to_the_sampler(w, count));
    }
  }
}

// Flat rows: their border does not fit the lists, so histograms are merged.
TEST(SampleTokensCuda, SmallRowsAreCutThroughHistograms) {
  ASHLAR_NEEDS_CUDA();
  for (const double top_p : {0.9, 0.3}) {
    for (const int64_t top_k : {0, 5000}) {
      Row row;
      row.logits.assign(20000, 0.25f);
      row.state.params.top_p = top_p;
      row.state.params.top_k = top_k;
      row.state.params.logprobs = 3;
      ASSERT_NO_FATAL_FAILURE(expect_same(on_device(row, 20000), sample_on_cpu(row, 20000)));
    }
  }
}

TEST(CountTokensCuda, CountsAsTheReferenceAndNothingOutside) {
  ASHLAR_NEEDS_CUDA();
  const std::unique_ptr<Device> cpu = new_cpu_device(1);
  const std::unique_ptr<Stream> host_stream = cpu->new_stream();
  const std::unique_ptr<Stream> device_stream = cuda_device().new_stream();
  constexpr int64_t kCounts = 300;
  std::vector<int32_t> tokens = {-1, 0, 299, 300, 301, INT32_MAX, INT32_MIN};
  Random random(3);
  for (int i = 0; i < 1000; ++i) tokens.push_back(static_cast<int32_t>(random.below(310)));
  const auto count = [&](Stream& stream, int64_t given) {
    DeviceTensors tensors(stream);
    const std::vector<int32_t> ids(tokens.begin(), tokens.begin() + given);
    const TensorView counts = tensors.make(DType::kI32, {3, kCounts}, 0x11);
    count_tokens(stream, {.tokens = tensors.from(ids),
                          .prompt_tokens = given / 2,
                          .counts = TensorView(counts.row<int32_t>(1), DType::kI32, {kCounts})});
    return tensors.read<int32_t>(counts);
  };
  for (const int64_t given : {int64_t{0}, int64_t{7}, static_cast<int64_t>(tokens.size())}) {
    EXPECT_EQ(count(*device_stream, given), count(*host_stream, given)) << given;
  }
}

// Rows whose border bins do not fit the list: equal logits, two values, a slope of tiny steps.
TEST(SampleTokensCuda, FlatRowsAreCutExactly) {
  ASHLAR_NEEDS_CUDA();
  const int64_t columns = 151936;
  std::vector<std::vector<float>> shapes(5, std::vector<float>(columns, 0.25f));
  for (int64_t i = 0; i < columns; ++i) {
    shapes[1][i] = i % 3 == 0 ? 2.0f : 1.0f;
    shapes[2][i] = 1.0f + static_cast<float>((i * 7919) % columns) * 0x1p-23f;
    shapes[3][i] = i % 2 == 0 ? 0.0f : -0.0f;
    shapes[4][i] = i % 1000 == 1 ? 3.0f : -kInfinity;
  }
  for (size_t shape = 0; shape < shapes.size(); ++shape) {
    for (const double top_p : {0.9, 0.3, 1e-12}) {
      for (const int64_t top_k : {int64_t{0}, int64_t{100}, int64_t{100000}}) {
        Row row;
        row.logits = shapes[shape];
        row.state.params.top_p = top_p;
        row.state.params.top_k = top_k;
        row.state.params.logprobs = 20;
        row.state.seed = 17 + shape;
        SCOPED_TRACE(testing::Message() << shape << " " << top_p << " " << top_k);
        ASSERT_NO_FATAL_FAILURE(expect_same(on_device(row, columns), sample_on_cpu(row, columns)));
      }
    }
  }
}

TEST(SampleTokensCuda, PadColumnsAreNeverSeen) {
  ASHLAR_NEEDS_CUDA();
  const int64_t decodable = 100003;
  const int64_t columns = 100096;
  Row row;
  row.logits = logits_like(5, columns, 5.0f, 0);
  for (int64_t i = decodable; i < columns; ++i) row.logits[i] = i % 2 == 0 ? 1000.0f : NAN;
  const int32_t best = static_cast<int32_t>(
      std::max_element(row.logits.begin(), row.logits.begin() + decodable) - row.logits.begin());
  row.state.params.logprobs = 100;
  for (const double p : {1.0, 0.9, 1.0 / static_cast<double>(columns), 1e-12}) {
    row.state.params.top_p = p;
    const Chosen made = on_device(row, decodable);
    ASSERT_EQ(made.failure, 0);
    EXPECT_LT(made.token.token, decodable);
    if (p <= 1.0 / static_cast<double>(columns)) {
      EXPECT_EQ(made.token.token, best);
    }
    ASSERT_NO_FATAL_FAILURE(expect_same(made, sample_on_cpu(row, decodable)));
  }
  row.state.params.temperature = 0;
  EXPECT_EQ(on_device(row, decodable).token.token, best);
}

TEST(SampleTokensCuda, TiesOfTopKGoToTheLowestIds) {
  ASHLAR_NEEDS_CUDA();
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  Row row;
  row.logits.assign(4096, 1.0f);
  row.logits[4000] = 2.0f;
  row.state.params.top_k = 4;
  row.state.params.temperature = 50;
  std::vector<Row> rows(64, row);
  std::vector<const Row*> pointers;
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].state.seed = i;
    pointers.push_back(&rows[i]);
  }
  std::vector<int> seen(4096);
  for (const Chosen& chosen : sample_on_device(*stream, pointers, 4096)) ++seen[chosen.token.token];
  for (int32_t token = 0; token < 4096; ++token) {
    EXPECT_EQ(seen[token] > 0, token < 3 || token == 4000) << token;
  }
}

// 10,000 draws; chi-square of 12 kept tokens exceeds 31.3 once in a thousand.
TEST(SampleTokensCuda, DrawsTokensAsOftenAsTheyWeigh) {
  ASHLAR_NEEDS_CUDA();
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  constexpr int64_t kDraws = 10000;
  constexpr int64_t kRows = 500;
  Row row;
  row.state.params.temperature = 1.3;
  row.state.params.top_k = 12;
  row.state.seed = 5;
  row.logits = logits_like(3, 64, 0.8f, 0);
  std::vector<double> share(64);
  std::vector<float> sorted = row.logits;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double sum = 0;
  for (int64_t i = 0; i < 64; ++i) {
    if (row.logits[i] >= sorted[11]) sum += share[i] = std::exp(row.logits[i] / 1.3);
  }
  std::vector<int64_t> counts(64);
  for (int64_t first = 0; first < kDraws; first += kRows) {
    std::vector<Row> rows(kRows, row);
    std::vector<const Row*> pointers;
    for (int64_t i = 0; i < kRows; ++i) {
      rows[i].position = static_cast<int32_t>(first + i + 1);
      pointers.push_back(&rows[i]);
    }
    for (const Chosen& chosen : sample_on_device(*stream, pointers, 64))
      ++counts[chosen.token.token];
  }
  double chi_square = 0;
  for (int64_t i = 0; i < 64; ++i) {
    const double wanted = share[i] / sum * kDraws;
    if (wanted == 0) {
      EXPECT_EQ(counts[i], 0) << i;
    } else {
      chi_square += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
    }
  }
  EXPECT_LT(chi_square, 31.3);
}

TEST(SampleTokensCuda, WhatCannotBeSampledFailsAlone) {
  ASHLAR_NEEDS_CUDA();
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  const int64_t columns = 5000;
  Row good;
  good.logits = logits_like(2, columns, 5.0f, 0);
  const Chosen wanted = sample_on_cpu(good, columns);
  std::vector<Row> bad(5, good);
  bad[0].logits[4999] = NAN;
  bad[1].logits[0] = kInfinity;
  std::fill(bad[2].logits.begin(), bad[2].logits.end(), -kInfinity);
  bad[3].allowed.assign((columns + 31) / 32, 0);
  bad[4].logits[7] = -kInfinity;  // which is allowed
  const std::vector<Chosen> made = sample_on_device(
      *stream, {&good, &bad[0], nullptr, &bad[1], &bad[2], &good, &bad[3], &bad[4], &good},
      columns);
  const int kinds[] = {0, 1, 0, 1, 2, 0, 2, 0, 0};
  for (size_t i = 0; i < made.size(); ++i) EXPECT_EQ(made[i].failure, kinds[i]) << i;
  for (const size_t i : {0, 5, 8}) EXPECT_EQ(made[i].token.token, wanted.token.token) << i;
}

TEST(SampleTokensCuda, RowRule) {
  ASHLAR_NEEDS_CUDA();
  const int64_t columns = 20000;
  std::vector<Row> rows;
  for (uint64_t i = 0; i < kRowRuleRows; ++i) {
    rows.push_back(random_row(i + 1, columns, columns, i % 2 == 0 ? 0.0f : 0.25f));
    rows.back().state.params.logprobs = 5;  // rows must differ, and more than by their token
  }
  expect_cuda_row_rule([&](Stream& stream, const std::vector<int>& batch) {
    std::vector<const Row*> pointers;
    for (const int row : batch)
      pointers.push_back(row == kPaddingRow ? nullptr : &rows[static_cast<size_t>(row)]);
    std::vector<RowBytes> made;
    for (const Chosen& chosen : sample_on_device(stream, pointers, columns)) {
      std::vector<uint32_t> words = {static_cast<uint32_t>(chosen.failure),
                                     static_cast<uint32_t>(chosen.token.token),
                                     std::bit_cast<uint32_t>(chosen.token.logprob)};
      for (const TokenLogprob& t : chosen.token.top) {
        words.push_back(static_cast<uint32_t>(t.token));
        words.push_back(std::bit_cast<uint32_t>(t.logprob));
      }
      made.push_back(bytes_of(words.data(), words.size() * 4));
    }
    return made;
  });
}

TEST(SampleTokensCuda, DISABLED_Speed) {
  ASHLAR_NEEDS_CUDA();
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  const int64_t columns = 151936;
  for (const char* what : {"greedy", "temperature", "top-p 0.95", "top-p 0.95 flat", "top-k 40",
                           "top-k 40 top-p 0.95", "greedy, 5 logprobs", "penalties"}) {
    const std::string_view name = what;
    for (const int64_t count : {1, 4, 16, 64}) {
      Row row;
      SamplingParams& p = row.state.params;
      p.temperature = name.starts_with("greedy") ? 0.0 : 1.0;
      if (name.find("top-p") != std::string_view::npos) p.top_p = 0.95;
      if (name.find("top-k") != std::string_view::npos) p.top_k = 40;
      if (name.find("logprobs") != std::string_view::npos) p.logprobs = 5;
      if (name == "penalties") {
        p.repetition_penalty = 1.1;
        row.prompt = {1, 2, 3};
      }
      std::vector<Row> rows(static_cast<size_t>(count), row);
      std::vector<const Row*> pointers;
      for (int64_t i = 0; i < count; ++i) {
        rows[i].logits = logits_like(static_cast<uint64_t>(i) + 9, columns,
                                     name.ends_with("flat") ? 0.9f : 6.0f, 0);
        rows[i].state.seed = static_cast<uint64_t>(i);
        pointers.push_back(&rows[i]);
      }
      DeviceTensors tensors(*stream);
      const SampleTokensArgs args = upload_samples(tensors, *stream, pointers, columns);
      const double us =
          microseconds_a_call(*stream, 100, [&](int) { sample_tokens(*stream, args); });
      print_speed(fmt::format("sample_tokens {} x {}, {}", count, columns, what).c_str(), us,
                  count * columns * 4);
    }
  }
}

}  // namespace
}  // namespace ashlar
