// Lists of numbers on the command line, and the engine that a measurement asks for.
#include "bench_options.h"

#include <gtest/gtest.h>

#include "bench_measure.h"

namespace ashlar {
namespace {

TEST(BenchOptions, ListsAreReadWholeOrRefusedWithTheFlag) {
  EXPECT_EQ(*parse_counts("--rows", "1,2,64", 64), (std::vector<int64_t>{1, 2, 64}));
  EXPECT_EQ(*parse_counts("--rows", "5", 64), std::vector<int64_t>{5});
  for (const char* text :
       {"", ",", "1,", ",1", "1,,2", "0", "65", "-1", "1 ,2", "x", "1x", "1e3"}) {
    const auto refused = parse_counts("--rows", text, 64);
    ASSERT_FALSE(refused) << text;
    EXPECT_NE(refused.error().message.find("--rows"), std::string::npos);
  }
}

TEST(BenchOptions, TheEngineHoldsWhatIsMeasuredAndNotMore) {
  BenchOptions options;
  options.prompt_tokens = 100;
  options.tokens = 20;
  const std::vector<int64_t> counts = {1, 8};
  const EngineOptions decode = *bench_engine_options(BenchKind::kDecode, options, counts);
  EXPECT_EQ(decode.max_batch, 8);
  EXPECT_EQ(decode.max_context, 120);
  EXPECT_EQ(decode.kv_positions, 8 * (128 + 32));

  const std::vector<int64_t> lengths = {512, 2048};
  const EngineOptions prefill = *bench_engine_options(BenchKind::kPrefill, options, lengths);
  EXPECT_EQ(prefill.max_batch, 1);
  EXPECT_EQ(prefill.max_context, 2049);
  EXPECT_EQ(prefill.step_rows, 512);

  EXPECT_EQ(bench_context(BenchKind::kDecode, options, counts), 120);
  EXPECT_EQ(bench_context(BenchKind::kPrefill, options, lengths), 2049);

  options.max_context = 119;
  EXPECT_FALSE(bench_engine_options(BenchKind::kDecode, options, counts));
  options.max_context = 4096;
  EXPECT_EQ(bench_engine_options(BenchKind::kDecode, options, counts)->max_context, 4096);
}

}  // namespace
}  // namespace ashlar
