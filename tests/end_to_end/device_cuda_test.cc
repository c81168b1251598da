// The program of a CUDA build as a user meets it. The first cases need no GPU: a build with the
// CUDA backend starts and answers where there is no driver.
#include <gtest/gtest.h>

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

TEST(CudaProgram, AnswersOnTheCpuWithoutADriver) {
  const ProgramResult cpu = run("cpu");
  EXPECT_EQ(cpu.exit_code, 0) << cpu.err;
  EXPECT_NE(cpu.out, "");
  const ProgramResult chosen = run("auto");
  EXPECT_EQ(chosen.exit_code, 0) << chosen.err;
  EXPECT_EQ(chosen.out, cpu.out);
}

TEST(CudaProgram, RefusesWhatItCannotRunThere) {
  for (const char* device : {"cuda", "cuda:3"}) {
    const ProgramResult result = run(device);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find("the CUDA engine is not there yet"), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace ashlar
