// Storms (testing/storm.h) over real layers, formats and vocabularies: the tiny checkpoints.
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf.h"
#include "models/model.h"
#include "testing/late_device.h"
#include "testing/paths.h"
#include "testing/storm.h"
#include "text/tokenizer.h"

namespace ashlar {
namespace {

Result<Tokenizer> tokenizer_of(const std::string& path) {
  ASHLAR_ASSIGN(const GgufFile file, GgufFile::open(path));
  ASHLAR_ASSIGN(const GgufVocabulary vocabulary, read_gguf_vocabulary(file));
  return Tokenizer::from_gguf(vocabulary);
}

TEST(Storm, EverySurvivorAnswersAsAlone) {
  int64_t preemptions = 0;
  for (const char* name : {"llama.gguf", "llama.q8_0_q4_0.gguf", "gemma3.q5_0_q8_0_q4_0.gguf"}) {
    const std::string path = (source_dir() / "tests/golden/tiny" / name).string();
    const auto checkpoint = Checkpoint::open(path, {});
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    const auto tokenizer = tokenizer_of(path);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    const auto device = new_cpu_device(2);
    const auto model = load_model(*checkpoint, *device, {});
    ASSERT_TRUE(model) << model.error().message;
    StormOptions options;
    options.seed = 11;
    options.longest_answer = 90;
    options.crowd.max_batch = 10;
    options.crowd.step_rows = 48;
    options.crowd.kv_positions = 352;
    const StormReport report = storm(**model, *device, {&*tokenizer, {2}}, options);
    EXPECT_EQ(report.problem, "") << name;
    // Of 64, a third of which are cancelled, and some of them too late.
    EXPECT_GT(report.survivors, 32) << name;
    EXPECT_GT(report.cancelled, 3) << name;
    preemptions += report.stats.preemptions;
  }
  // How many requests meet depends on how fast threads submit; not on every machine in each storm.
  EXPECT_GT(preemptions, 0) << "the pages were not tight";
}

// Steps are replayed and tokens chosen by operations, on a device that lags behind: alone, nothing
// of this is so.
TEST(Storm, RecordedStepsThatRunLateChangeNoBit) {
  for (const char* name : {"llama.q8_0_q4_0.gguf", "gemma3.q5_0_q8_0_q4_0.gguf"}) {
    const std::string path = (source_dir() / "tests/golden/tiny" / name).string();
    const auto checkpoint = Checkpoint::open(path, {});
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    const auto tokenizer = tokenizer_of(path);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    const auto device = new_cpu_device(2);
    const auto model = load_model(*checkpoint, *device, {});
    ASSERT_TRUE(model) << model.error().message;
    LateDevice late(2);
    StormOptions options;
    options.seed = 12;
    options.requests = 40;
    options.longest_answer = 60;
    options.solo_device = device.get();
    options.crowd.graphs = "on";
    options.crowd.max_batch = 10;
    options.crowd.step_rows = 48;
    options.crowd.kv_positions = 352;
    const StormReport report = storm(**model, late, {&*tokenizer, {2}}, options);
    EXPECT_EQ(report.problem, "") << name;
    EXPECT_GT(report.survivors, 20) << name;
    int64_t replayed = 0;
    for (const RecordedCount& c : report.stats.ran_as.recorded) replayed += c.steps;
    EXPECT_GT(replayed, 50) << name;
  }
}

}  // namespace
}  // namespace ashlar
