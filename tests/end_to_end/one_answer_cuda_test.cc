// The engine on a GPU: one answer whatever runs beside it and however steps are run; storms; rows
// that go wrong; what the driver says of the memory plan.
//
// Small random models of every family, then a synthetic model with the shapes of an 8B and the two
// real models where they are there. Each request is asked many times, in every way that an engine
// can run it.
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "models/model.h"
#include "testing/cuda_device.h"
#include "testing/one_answer.h"
#include "testing/paths.h"
#include "testing/random_model.h"
#include "testing/storm.h"

namespace ashlar {
namespace {

std::unique_ptr<Model> load(const std::string& argument, int64_t context = 0) {
  auto checkpoint = Checkpoint::open(argument, HubPaths{});
  EXPECT_TRUE(checkpoint) << argument << ": " << checkpoint.error().message;
  if (!checkpoint) return nullptr;
  ModelOptions options;
  options.context_length = context;
  auto model = load_model(*checkpoint, cuda_device(), options);
  EXPECT_TRUE(model) << argument << ": " << model.error().message;
  return model ? *std::move(model) : nullptr;
}

void expect_one_answer(Model& model, const OneAnswerOptions& options, const std::string& name) {
  const OneAnswerReport report = one_answer(model, cuda_device(), options);
  EXPECT_EQ(report.problem, "") << name;
  EXPECT_GT(report.replayed, 0) << name;
  if (options.tight_positions > 0) {
    EXPECT_GT(report.preemptions, 0) << name;
  }
  fmt::print("{}: {} answers of {} tokens equal; {} steps replayed, {} direct, {} preemptions\n",
             name, report.answers, report.tokens, report.replayed, report.direct,
             report.preemptions);
}

TEST(OneAnswerCuda, RandomModelsOfEveryFamily) {
  ASHLAR_NEEDS_CUDA();
  const TempDir folder;
  for (const RandomModel& spec : random_models()) {
    const auto model = load(write_random_model(folder, spec));
    ASSERT_NE(model, nullptr);
    OneAnswerOptions options;
    options.requests = 24;
    options.crowds = {2, 3, 9, 33};
    options.tight_positions = 640;
    expect_one_answer(*model, options, spec.name);
  }
}

TEST(OneAnswerCuda, StormsOnRandomModels) {
  ASHLAR_NEEDS_CUDA();
  const TempDir folder;
  for (const RandomModel& spec : random_models()) {
    const auto model = load(write_random_model(folder, spec));
    ASSERT_NE(model, nullptr);
    for (const uint64_t seed : {1, 2}) {
      StormOptions options;
      options.seed = seed;
      options.crowd.max_batch = 10;
      options.crowd.step_rows = 48;
      options.crowd.kv_positions = 416;
      const StormReport report = storm(*model, cuda_device(), {nullptr, {2}}, options);
      EXPECT_EQ(report.problem, "") << spec.name;
      EXPECT_GT(report.survivors, 40) << spec.name;
    }
  }
}

TEST(OneAnswerCuda, ARowThatIsNotFiniteFailsAlone) {
  ASHLAR_NEEDS_CUDA();
  const TempDir folder;
  const auto model = load(write_random_model(folder, random_models().front(), 0.0f, 7));
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(bad_row_problem(*model, cuda_device(), 7), "");
}

// The widths of an 8B, some of its layers; contexts from 1 to 16k.
TEST(OneAnswerCuda, ShapesOfAnEightB) {
  ASHLAR_NEEDS_CUDA();
  const auto model = load("synthetic:llama-3.1-8b?layers=4", 17000);
  ASSERT_NE(model, nullptr);
  OneAnswerOptions options;
  options.requests = 40;
  options.longest_prompt = 16384;
  options.longest_answer = 60;
  options.crowds = {2, 7, 16, 64};
  options.tight_positions = 17408;
  expect_one_answer(*model, options, "8B shapes");
}

TEST(OneAnswerCuda, APositionBeyondAHundredThousand) {
  ASHLAR_NEEDS_CUDA();
  const auto model = load("synthetic:llama-3.1-8b?layers=2", 131072);
  ASSERT_NE(model, nullptr);
  OneAnswerOptions options;
  options.requests = 2;
  options.longest_prompt = 131040;
  options.longest_answer = 30;
  options.max_context = 131072;
  options.crowds = {2};
  options.chunks = {512};
  expect_one_answer(*model, options, "128k");
}

class RealModelOneAnswerCuda : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(RealModelOneAnswerCuda, ThreeHundredRequests) {
  ASHLAR_NEEDS_CUDA();
  if (!std::filesystem::exists(GetParam())) GTEST_SKIP() << GetParam() << " is not there";
  const auto model = load(GetParam().string());
  ASSERT_NE(model, nullptr);
  OneAnswerOptions options;
  options.requests = 100;
  options.longest_prompt = 2000;  // Gemma: several windows
  options.crowds = {2, 5, 16, 48};
  options.tight_positions = 4096;
  expect_one_answer(*model, options, GetParam().filename().string());
}

INSTANTIATE_TEST_SUITE_P(Models, RealModelOneAnswerCuda,
                         ::testing::Values(smollm2_path(), gemma3_path()),
                         [](const auto& info) { return info.index == 0 ? "smollm2" : "gemma3"; });

}  // namespace
}  // namespace ashlar
