// The program of a CUDA build as a user meets it. The first cases need no GPU: a build with the
// CUDA backend starts and answers where there is no driver.
#include <gtest/gtest.h>

#include "testing/cuda_device.h"
#include "testing/paths.h"
#include "testing/program.h"

namespace ashlar {
namespace {

ProgramResult run(const std::string& device) {
  const std::string model = (source_dir() / "tests/golden/tiny/llama.gguf").string();
  return run_program({.arguments = {"run", model, "abc", "--raw", "--temperature", "0",
                                    "--max-tokens", "8", "--device", device},
                      .input = {},
                      .environment = {}});
}

TEST(CudaProgram, AnswersOnTheCpu) {
  const ProgramResult cpu = run("cpu");
  EXPECT_EQ(cpu.exit_code, 0) << cpu.err;
  EXPECT_NE(cpu.out, "");
  if (test_cuda_device()) return;  // what auto is there, head sizes of 16 do not run on
  const ProgramResult chosen = run("auto");
  EXPECT_EQ(chosen.exit_code, 0) << chosen.err;
  EXPECT_EQ(chosen.out, cpu.out);
}

TEST(CudaProgram, RefusesADeviceThatIsNotThere) {
  const ProgramResult result = run("cuda:63");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("--device cuda:63"), std::string::npos) << result.err;
}

// The steps of the answer were replayed, and the program says so.
TEST(CudaProgram, AnswersOnTheGpuWithRecordedSteps) {
  ASHLAR_NEEDS_CUDA();
  const auto answer = [](const std::string& graphs) {
    return run_program(
        {.arguments = {"run", "synthetic:qwen3-0.6b?layers=2", "abc", "--raw", "--temperature", "0",
                       "--max-tokens", "20", "--max-context", "512", "--ignore-eos", "--device",
                       "cuda", "--graphs", graphs, "--stats"},
         .input = {},
         .environment = {}});
  };
  const ProgramResult recorded = answer("on");
  EXPECT_EQ(recorded.exit_code, 0) << recorded.err;
  EXPECT_NE(recorded.err.find("19 steps replayed"), std::string::npos) << recorded.err;
  const ProgramResult direct = answer("off");
  EXPECT_EQ(direct.out, recorded.out);
  EXPECT_NE(direct.err.find("recording is off"), std::string::npos) << direct.err;
}

}  // namespace
}  // namespace ashlar
