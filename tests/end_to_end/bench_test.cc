// `ashlar bench` as a user calls it, on a model small enough that only the form of the result can
// be checked, not its speed.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/paths.h"
#include "testing/program.h"
#include "testing/temp_dir.h"

namespace ashlar {
namespace {

ProgramResult bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "bench");
  return run_program({.arguments = std::move(arguments), .input = "", .environment = {}});
}

std::string tiny() { return (source_dir() / "tests/golden/tiny/gemma3.gguf").string(); }

TEST(Bench, DecodeCountsOnlyStepsWithAllSequences) {
  const ProgramResult result = bench({"decode", tiny(), "--json", "--concurrency", "1,3",
                                      "--prompt-tokens", "5", "--tokens", "8", "--threads", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["kind"], "decode");
  EXPECT_EQ(report["settings"]["threads"], 1);
  EXPECT_GT(report["measured_read_gb_s"].get<double>(), 0);
  EXPECT_GT(report["peak_resident_bytes"].get<int64_t>(), 0);
  EXPECT_FALSE(report["commit"].get<std::string>().empty());
  ASSERT_EQ(report["rows"].size(), 2u);
  for (const nlohmann::json& row : report["rows"]) {
    // Each of 3 repetitions yields 8 tokens a sequence. The first comes with the prompt, and the
    // second is decoded in the call that began with the prompt.
    EXPECT_GE(row["steps"].get<int>(), 3 * 5);
    EXPECT_LE(row["steps"].get<int>(), 3 * 6);
    EXPECT_GT(row["output_tok_s"].get<double>(), 0);
    EXPECT_GE(row["bytes_per_step"], report["weight_bytes"]);
    EXPECT_EQ(row["path"], "engine");
    EXPECT_EQ(row["bare"]["steps"], 3 * 8);
    EXPECT_EQ(row["bare"]["context"], 5 + 4);
    EXPECT_GT(row["engine_over_bare"].get<double>(), 0);
    EXPECT_TRUE(row["fraction_of_cublas"].is_null());
  }
}

TEST(Bench, StartIsSplitIntoItsParts) {
  const ProgramResult result = bench(
      {"start", tiny(), "--json", "--prompt-tokens", "5", "--tokens", "4", "--requests", "3"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  double sum = 0;
  for (const nlohmann::json& part : report["parts"]) sum += part["seconds"].get<double>();
  EXPECT_NEAR(sum, report["first_token_seconds"].get<double>(), 1e-6);
  EXPECT_GT(sum, 0);
  ASSERT_EQ(report["requests"].size(), 3u);
  for (const nlohmann::json& request : report["requests"]) {
    EXPECT_GT(request["first_token_seconds"].get<double>(), 0);
    EXPECT_GE(request["total_seconds"], request["first_token_seconds"]);
  }
  EXPECT_GT(report["memory"]["weights_bytes"].get<int64_t>(), 100'000);

  const ProgramResult one = bench({"start", tiny(), "--requests", "1"});
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_NE(one.err.find("requests"), std::string::npos) << one.err;
}

TEST(Bench, PrefillWritesItsResultToAFile) {
  const TempDir dir;
  const std::string file = (dir.path() / "result.json").string();
  const ProgramResult result = bench({"prefill", tiny(), "--lengths", "7,20", "--repetitions", "2",
                                      "--no-read-speed", "--output", file});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("tok/s"), std::string::npos) << result.out;
  std::ifstream stream(file);
  const nlohmann::json report = nlohmann::json::parse(stream);
  ASSERT_EQ(report["rows"].size(), 2u);
  EXPECT_EQ(report["rows"][1]["tokens"], 20);
  EXPECT_GT(report["rows"][1]["tok_s"].get<double>(), 0);
  EXPECT_EQ(report["measured_read_bytes"], 0);
}

TEST(Bench, OperationsOfAStepAddUpToIt) {
  const ProgramResult result =
      bench({"op", tiny(), "--rows", "2,70", "--contexts", "6,90", "--no-read-speed", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  // 70 rows are more than decode is measured with; a part of a prompt ends at its own rows.
  ASSERT_EQ(report["rows"].size(), 4u);
  EXPECT_EQ(report["rows"][0]["phase"], "decode");
  EXPECT_EQ(report["rows"][1]["context"], 90);
  EXPECT_EQ(report["rows"][2]["rows"], 70);
  EXPECT_EQ(report["rows"][2]["context"], 70);
  EXPECT_TRUE(report["valid"].is_null());
  for (const nlohmann::json& row : report["rows"]) {
    double ms = row["gaps_ms"].get<double>();
    int64_t matmuls = 0;
    for (const nlohmann::json& line : row["ops"]) {
      ms += line["ms"].get<double>();
      EXPECT_GT(line["alone"]["us_median"].get<double>(), 0);
      if (line["name"].get<std::string>().starts_with("matmul ")) {
        matmuls += line["calls"].get<int64_t>();
      }
    }
    EXPECT_EQ(matmuls, 4 * 7 + 1);
    EXPECT_NEAR(ms, row["step_ms"].get<double>(), 1e-3 + 0.01 * row["step_ms"].get<double>());
  }
}

TEST(Bench, WithoutTheEngineTheDeviceAloneIsMeasured) {
  const ProgramResult result = bench({"decode", tiny(), "--no-engine", "--concurrency", "2",
                                      "--prompt-tokens", "5", "--tokens", "8", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["rows"][0]["path"], "bare");
  EXPECT_GT(report["rows"][0]["output_tok_s"].get<double>(), 0);
  EXPECT_EQ(report["settings"].contains("max_waiting"), false);
}

TEST(Bench, TellsWhatIsWrong) {
  const struct {
    std::vector<std::string> arguments;
    std::string message;
  } cases[] = {
      {{}, "usage: ashlar bench"},
      {{"speed", tiny()}, "there is no 'speed'"},
      {{"decode", tiny(), "--concurrency", "1;2"}, "--concurrency"},
      {{"decode", tiny(), "--lengths", "1"}, "--lengths"},
      {{"decode", tiny(), "--max-context", "10"}, "--max-context"},
      {{"op", tiny(), "--contexts", "5,x"}, "--contexts"},
      {{"op", tiny(), "--contexts", "100000"}, "context"},
      {{"op", tiny(), "--baseline", "/no/such.json"}, "/no/such.json"},
      {{"decode", tiny(), "--concurrency", "64", "--step-rows", "64", "--prompt-tokens", "60",
        "--tokens", "8"},
       "--tokens"},
      {{"prefill", tiny(), "--lengths", "100000"}, "context"},
      {{"prefill", "/no/such.gguf"}, "/no/such.gguf"},
  };
  for (const auto& c : cases) {
    const ProgramResult result = bench(c.arguments);
    EXPECT_NE(result.exit_code, 0) << c.message;
    EXPECT_NE(result.err.find(c.message), std::string::npos) << c.message << " in: " << result.err;
    EXPECT_EQ(result.out, "");
  }
}

}  // namespace
}  // namespace ashlar
