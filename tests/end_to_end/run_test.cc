// `ashlar run` and `ashlar inspect` as a user meets them: pipes, flags, errors, and a chat on a
// terminal with the default model. Suites named RealModel need the fetched checkpoint and are
// skipped without it.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "testing/paths.h"
#include "testing/program.h"
#include "testing/temp_dir.h"

namespace ashlar {
namespace {

std::string tiny(std::string_view name) {
  return (source_dir() / "tests/golden/tiny" / name).string();
}

ProgramResult run(std::vector<std::string> arguments, std::string input = "") {
  return run_program(
      {.arguments = std::move(arguments), .input = std::move(input), .environment = {}});
}

TEST(Run, TellsWhatIsWrongWithTheCommandLine) {
  const struct {
    std::vector<std::string> arguments;
    std::string message;
  } cases[] = {
      {{"walk"}, "there is no verb 'walk'"},
      {{"run"}, "MODEL is required"},
      {{"run", "m", "p", "--temprature", "1"}, "--temprature"},
      {{"run", "m", "p", "--temperature", "hot"}, "--temperature: 'hot' is not a number"},
      {{"run", "m", "p", "--top-p", "1.5"}, "--top-p: 1.5 is out of range"},
      {{"run", "m", "p", "--kv-type", "f8"}, "--kv-type: 'f8' is not one of auto, f16, f32, bf16"},
      {{"run", "m", "p", "--seed", "1", "--seed", "2"}, "--seed"},
      {{"run", "m", "p", "--options", "/nowhere/o.json"}, "/nowhere/o.json"},
      {{"run", "m", "p", "--options", "/tmp"}, "/tmp"},
  };
  for (const auto& c : cases) {
    const ProgramResult result = run(c.arguments);
    EXPECT_EQ(result.exit_code == 0, false) << c.message;
    EXPECT_NE(result.err.find(c.message), std::string::npos) << c.message << " in: " << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST(Run, NamesWhatItCannotOpen) {
  const TempDir dir;
  const std::string broken = dir.write("broken.gguf", std::string_view("GGUF\x03\0\0\0", 8));
  EXPECT_NE(run({"run", "/no/such/model.gguf", "hi"}).err.find("/no/such/model.gguf"),
            std::string::npos);
  const ProgramResult result = run({"run", broken, "hi"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("broken.gguf"), std::string::npos) << result.err;
}

TEST(Run, AModelWithoutATemplateNeedsRaw) {
  const ProgramResult refused = run({"run", tiny("llama.gguf"), "abc"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find("--raw"), std::string::npos) << refused.err;
  const ProgramResult raw = run({"run", tiny("llama.gguf"), "abc", "--raw", "--max-tokens", "4"});
  EXPECT_EQ(raw.exit_code, 0) << raw.err;
}

// Accepted and then ignored would be worse than refused.
TEST(Run, RefusesWhatCouldHaveNoEffect) {
  const std::string model = tiny("llama.gguf");
  const struct {
    std::vector<std::string> more;
    std::string message;
  } cases[] = {
      {{"--raw", "--system", "be brief"}, "--system"},
      {{"--raw", "--template-kwargs", "{}"}, "--template-kwargs"},
      {{"--raw", "--logprobs", "2"}, "--logprobs"},
      {{"--raw", "--max-sequences", "2"}, "--max-sequences"},
      {{"--raw", "--kv-positions", "999999999999"}, "kv_positions"},
      {{"--raw", "--threads", "1024"}, "--threads"},
  };
  for (const auto& c : cases) {
    std::vector<std::string> arguments = {"run", model, "abc"};
    arguments.insert(arguments.end(), c.more.begin(), c.more.end());
    const ProgramResult result = run(arguments);
    EXPECT_TRUE(result.exit_code == 1 || result.exit_code == 2) << result.exit_code;
    EXPECT_NE(result.err.find(c.message), std::string::npos) << result.err;
  }
  EXPECT_NE(run({"run", model, "", "--raw"}).err.find("the prompt is empty"), std::string::npos);
  EXPECT_NE(run({"run", model, "\xff\xfe", "--raw"}).err.find("UTF-8"), std::string::npos);
}

TEST(Run, AFullDiskIsAnErrorNotALostAnswer) {
  for (const char* command : {"inspect", "run"}) {
    ProgramRun options = {
        .arguments = {command, tiny("llama.gguf")}, .input = "abc", .environment = {}};
    if (std::string_view(command) == "run")
      options.arguments.insert(options.arguments.end(), {"--raw", "--max-tokens", "2"});
    options.output_file = "/dev/full";
    const ProgramResult result = run_program(options);
    EXPECT_EQ(result.exit_code, 1) << command;
    EXPECT_NE(result.err.find("stdout"), std::string::npos) << result.err;
  }
}

TEST(Run, TheOptionsFileIsUnderTheFlags) {
  const TempDir dir;
  const std::string file = dir.write("o.json", R"({"max_tokens": 3, "seed": 5, "raw": true})");
  const ProgramResult result = run({"run", tiny("llama.gguf"), "abc", "--options", file,
                                    "--max-tokens", "2", "--json", "--ignore-eos"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json answer = nlohmann::json::parse(result.out);
  EXPECT_EQ(answer["usage"]["output_tokens"], 2);
  EXPECT_EQ(answer["seed"], 5);
  EXPECT_EQ(answer["finish_reason"], "length");
  EXPECT_EQ(answer["settings"]["max_tokens"], 2);
}

TEST(Run, ASeedRepeatsAndIsReported) {
  const std::vector<std::string> base = {
      "run", tiny("qwen3.gguf"), "abc",           "--raw", "--json", "--max-tokens",
      "12",  "--ignore-eos",     "--temperature", "1.5"};
  const auto tokens = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  };
  const nlohmann::json first = tokens({});
  const std::string seed = first["seed"].dump();
  EXPECT_EQ(tokens({"--seed", seed})["tokens"], first["tokens"]);
  EXPECT_EQ(tokens({"--seed", "1", "--threads", "1"})["tokens"],
            tokens({"--seed", "1", "--threads", "0"})["tokens"]);
  EXPECT_NE(tokens({"--seed", "1"})["tokens"], tokens({"--seed", "2"})["tokens"]);
}

TEST(Inspect, ShowsWhatWouldRunAndWhatIsRefused) {
  const ProgramResult good = run({"inspect", tiny("gemma3.gguf"), "--json", "--tensors"});
  ASSERT_EQ(good.exit_code, 0) << good.err;
  const nlohmann::json shown = nlohmann::json::parse(good.out);
  EXPECT_EQ(shown["model"]["family"], "gemma3");
  EXPECT_GT(shown["model"]["windowed_layers"], 0);
  EXPECT_FALSE(shown["tensors"].empty());
  EXPECT_EQ(shown["memory"]["kv_bytes"].get<int64_t>(),
            shown["memory"]["kv_positions"].get<int64_t>() *
                shown["model"]["kv_bytes_a_position"].get<int64_t>());
  EXPECT_EQ(shown["memory"]["kv_positions"], 64 * 512) << "a server has 64 sequences";

  const ProgramResult tight =
      run({"inspect", tiny("gemma3.gguf"), "--kv-positions", "64", "--max-context", "128"});
  EXPECT_EQ(tight.exit_code, 1);
  EXPECT_NE(tight.out.find("kv_positions: 64 is less than max_context 128"), std::string::npos)
      << tight.out;

  const TempDir dir;
  const auto source = source_dir() / "tests/golden/tiny/llama";
  for (const auto& entry : std::filesystem::directory_iterator(source)) {
    std::filesystem::copy(entry.path(), dir.path() / entry.path().filename());
  }
  nlohmann::json config = shown["config"];
  config["model_type"] = "mamba2";
  dir.write("config.json", config.dump());
  const ProgramResult refused = run({"inspect", dir.path().string()});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.out.find("mamba2"), std::string::npos) << refused.out << refused.err;
}

class RealModelRun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(smollm2_path())) GTEST_SKIP() << smollm2_path() << " is not there";
  }
  std::string model_ = smollm2_path().string();
};

TEST_F(RealModelRun, AnswersFromAPipeWithinTwoSeconds) {
  const auto start = std::chrono::steady_clock::now();
  const ProgramResult result =
      run({"run", model_, "--temperature", "0", "--max-tokens", "24", "--json"},
          "What is the capital of France?");
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json answer = nlohmann::json::parse(result.out);
  EXPECT_NE(answer["text"].get<std::string>().find("Paris"), std::string::npos) << answer["text"];
  // The process, its start included, on a machine that may run other tests beside it.
  EXPECT_LT(seconds - answer["total_ms"].get<double>() / 1e3 +
                answer["first_token_ms"].get<double>() / 1e3,
            2.0);
}

TEST_F(RealModelRun, StopStringsBiasAndLogprobsAreHonoured) {
  const std::vector<std::string> base = {
      "run",          model_, "Count from one to nine in digits.", "--json", "--temperature", "0",
      "--max-tokens", "40"};
  const auto ask = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  };
  const nlohmann::json plain = ask({});
  const std::string text = plain["text"];
  ASSERT_GT(text.size(), 12u);
  const std::string stop = text.substr(6, 4);
  const nlohmann::json stopped = ask({"--stop", stop});
  EXPECT_EQ(stopped["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(stopped["finish_reason"], "stop");
  EXPECT_EQ(stopped["stop_text"], stop);

  const std::string first = plain["tokens"][0].dump();
  EXPECT_NE(ask({"--logit-bias", first + "=-100"})["tokens"][0].dump(), first);
  EXPECT_EQ(ask({"--stop-token", first})["tokens"].size(), 1u);

  const nlohmann::json scored = ask({"--logprobs", "3"});
  ASSERT_EQ(scored["logprobs"].size(), scored["tokens"].size());
  EXPECT_EQ(scored["logprobs"][0]["top"].size(), 3u);
  EXPECT_EQ(scored["logprobs"][0]["top"][0]["id"], scored["tokens"][0]);
  EXPECT_EQ(ask({"--min-tokens", "40", "--stop", "\x01"})["usage"]["output_tokens"], 40);
}

TEST_F(RealModelRun, ChatsOnATerminalWithHistory) {
  if (!TerminalProgram::available()) GTEST_SKIP() << "no pseudo-terminal can be opened here";
  TerminalProgram chat({"run", model_, "--temperature", "0", "--max-tokens", "30"});
  ASSERT_TRUE(chat.wait_for("> ")) << chat.seen();
  chat.type("My name is Ada. Please remember it.\n");
  ASSERT_TRUE(chat.wait_for("> ")) << chat.seen();
  chat.type("What is my name?\n");
  ASSERT_TRUE(chat.wait_for("Ada")) << chat.seen();
  ASSERT_TRUE(chat.wait_for("> ")) << chat.seen();
  chat.type("/nonsense\n");
  ASSERT_TRUE(chat.wait_for("there is no command /nonsense")) << chat.seen();
  chat.type("\x04");
  EXPECT_EQ(chat.wait_for_exit(), 0);
}

TEST_F(RealModelRun, CtrlCStopsTheAnswerNotTheChat) {
  if (!TerminalProgram::available()) GTEST_SKIP() << "no pseudo-terminal can be opened here";
  TerminalProgram chat({"run", model_, "--temperature", "0", "--ignore-eos"});
  ASSERT_TRUE(chat.wait_for("> ")) << chat.seen();
  chat.type("Write a very long story about the sea.\n");
  // The echo first, then a word of the answer: a Ctrl-C before that would drop the typed line.
  ASSERT_TRUE(chat.wait_for("about the sea.")) << chat.seen();
  ASSERT_TRUE(chat.wait_for("the")) << chat.seen();
  chat.type("\x03");
  ASSERT_TRUE(chat.wait_for("> ")) << chat.seen();
  // At the prompt it only starts a new line. One that comes between the prompt and the read is
  // lost, as in any program.
  bool prompted = false;
  for (int tries = 0; tries < 20 && !prompted; ++tries) {
    chat.type("\x03");
    prompted = chat.wait_for("> ", 0.5);
  }
  ASSERT_TRUE(prompted) << chat.seen();
  chat.type("/exit\n");
  EXPECT_EQ(chat.wait_for_exit(), 0);
}

TEST_F(RealModelRun, APromptBeyondTheContextNamesBothLengths) {
  const ProgramResult result = run(
      {"run", model_, "one two three four five six seven eight nine ten", "--max-context", "16"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("16"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace ashlar
