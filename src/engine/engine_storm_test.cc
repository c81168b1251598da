// Storms over the toy model, whose logits change with any wrong page, position or token.
#include <gtest/gtest.h>

#include "testing/character_tokenizer.h"
#include "testing/storm.h"
#include "testing/toy_model.h"

namespace ashlar {
namespace {

constexpr int64_t kDecodable = 73;

TEST(EngineStorm, EverySurvivorAnswersAsAlone) {
  const Tokenizer tokenizer = character_tokenizer(kDecodable);
  ToyModel model(80, kDecodable, 400);
  const auto device = new_cpu_device(2);
  int64_t cancelled = 0;
  int64_t preemptions = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    StormOptions options;
    options.seed = seed;
    options.crowd.depth = 1 + static_cast<int64_t>(seed % 2);
    options.crowd.max_batch = 10;
    options.crowd.step_rows = seed < 3 ? 64 : 13;
    options.crowd.kv_positions = 416;
    const StormReport report = storm(model, *device, {&tokenizer, {5}}, options);
    EXPECT_EQ(report.problem, "") << "seed " << seed;
    EXPECT_GT(report.survivors, 40);
    cancelled += report.cancelled;
    preemptions += report.stats.preemptions;
  }
  EXPECT_GT(cancelled, 20);
  EXPECT_GT(preemptions, 3) << "the pages were not tight";
}

}  // namespace
}  // namespace ashlar
