// One answer, whatever runs beside it and however steps are run, on tiny checkpoints on the CPU.
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "models/model.h"
#include "testing/one_answer.h"
#include "testing/paths.h"
#include "testing/random_model.h"

namespace ashlar {
namespace {

TEST(OneAnswer, TinyModels) {
  for (const char* name : {"llama.q8_0_q4_0.gguf", "gemma3.q5_0_q8_0_q4_0.gguf"}) {
    const std::string path = (source_dir() / "tests/golden/tiny" / name).string();
    const auto checkpoint = Checkpoint::open(path, {});
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    const auto device = new_cpu_device(2);
    const auto model = load_model(*checkpoint, *device, {});
    ASSERT_TRUE(model) << model.error().message;
    OneAnswerOptions options;
    options.requests = 12;
    options.longest_prompt = 150;
    options.longest_answer = 70;
    options.crowds = {3, 8};
    options.chunks = {16, 100};
    options.tight_positions = 224;
    const OneAnswerReport report = one_answer(**model, *device, options);
    EXPECT_EQ(report.problem, "") << name;
    EXPECT_EQ(report.answers, 12 * (2 + 2 * 4 + 1));
    EXPECT_GT(report.replayed, 100);
    EXPECT_GT(report.preemptions, 0) << "the pages were not tight";
  }
}

TEST(OneAnswer, ARowThatIsNotFiniteFailsAlone) {
  const TempDir folder;
  const std::string path = write_random_model(folder, random_models().front(), 0.0f, 7);
  const auto checkpoint = Checkpoint::open(path, HubPaths{});
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto device = new_cpu_device(2);
  const auto model = load_model(*checkpoint, *device, {});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(bad_row_problem(**model, *device, 7), "");
}

}  // namespace
}  // namespace ashlar
