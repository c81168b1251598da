// Synthetic models as a user meets them: `run`, `inspect` and `inspect --export` of a model that no
// file holds.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "testing/program.h"
#include "testing/temp_dir.h"

namespace ashlar {
namespace {

constexpr const char* kModel = "synthetic:qwen3-0.6b?layers=1&vocab=4096";

ProgramResult run(std::vector<std::string> arguments) {
  return run_program({.arguments = std::move(arguments), .input = "", .environment = {}});
}

nlohmann::json answer_of(const std::string& model, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {
      "run", model, "hello", "--max-tokens", "4", "--json", "--ignore-eos", "--logprobs", "5"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ProgramResult result = run(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return nlohmann::json::parse(result.out, nullptr, false);
}

TEST(SyntheticModel, AnswersAlike) {
  const nlohmann::json first = answer_of(kModel);
  EXPECT_EQ(first["tokens"].size(), 4u);
  const nlohmann::json again = answer_of(kModel, {"--threads", "1"});
  EXPECT_EQ(first["tokens"], again["tokens"]);
  EXPECT_EQ(first["logprobs"], again["logprobs"]);
  EXPECT_NE(first["logprobs"], answer_of(std::string(kModel) + "&seed=2")["logprobs"]);
}

TEST(SyntheticModel, IsRefusedByName) {
  const ProgramResult preset = run({"run", "synthetic:gpt-5", "hello"});
  EXPECT_EQ(preset.exit_code, 2);
  EXPECT_NE(preset.err.find("mistral-7b"), std::string::npos) << preset.err;
  const ProgramResult option = run({"inspect", "synthetic:qwen3-4b?layer=2"});
  EXPECT_EQ(option.exit_code, 2);
  EXPECT_NE(option.err.find("layers, vocab, decodable, seed"), std::string::npos) << option.err;
}

TEST(SyntheticModel, InspectGeneratesNothing) {
  const ProgramResult result = run({"inspect", "synthetic:qwen3-32b", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json shown = nlohmann::json::parse(result.out);
  EXPECT_EQ(shown["container"], "synthetic");
  EXPECT_EQ(shown["model"]["layers"], 64);
  EXPECT_EQ(shown["model"]["decodable"], 151669);
  EXPECT_EQ(shown["text"]["chat_template"], true);
}

TEST(SyntheticModel, ExportAndReloadGiveTheSameLogits) {
  const TempDir dir;
  const std::string folder = (dir.path() / "out").string();
  const ProgramResult written = run({"inspect", kModel, "--export", folder});
  ASSERT_EQ(written.exit_code, 0) << written.err;
  EXPECT_NE(written.out.find("model.safetensors"), std::string::npos) << written.out;
  const nlohmann::json original = answer_of(kModel), copy = answer_of(folder);
  EXPECT_EQ(original["tokens"], copy["tokens"]);
  EXPECT_EQ(original["logprobs"], copy["logprobs"]);

  const ProgramResult twice = run({"inspect", kModel, "--export", folder});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_NE(twice.err.find("is not empty"), std::string::npos) << twice.err;
}

TEST(SyntheticModel, ExportRefusesByNameWhatItDoesNotDo) {
  const TempDir dir;
  const std::string folder = (dir.path() / "out").string();
  struct Case {
    std::vector<std::string> arguments;
    const char* message;
  };
  for (const Case& c : {Case{{"--export", ""}, "--export takes the name of one folder"},
                        Case{{"--export", folder, "--export", folder}, "one folder"},
                        Case{{"--export", folder, "--tensors"}, "--tensors"},
                        Case{{"--export", folder, "--device", "cpu"}, "--device"},
                        Case{{"--export", folder, "--threads", "2"}, "--threads"},
                        Case{{"--export", folder, "--max-batch", "2"}, "how much memory"}}) {
    std::vector<std::string> arguments = {"inspect", kModel};
    arguments.insert(arguments.end(), c.arguments.begin(), c.arguments.end());
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 2) << c.message;
    EXPECT_NE(result.err.find(c.message), std::string::npos) << result.err;
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace ashlar
