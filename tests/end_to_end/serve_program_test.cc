// `ashlar serve` as a process: what it prints, ports, signals, a kill and a restart.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "testing/http_client.h"
#include "testing/paths.h"
#include "testing/program.h"

namespace ashlar {
namespace {

using nlohmann::json;

std::vector<std::string> serve(const std::string& port, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {
      "serve",     (source_dir() / "tests/golden/tiny/llama.gguf").string(),
      "--port",    port,
      "--threads", "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The port of a server that has said where it listens; 0 when it never does.
int64_t port_of(BackgroundProgram& program) {
  const std::string_view start = "ashlar serves llama on http://127.0.0.1:";
  if (!program.wait_for(start) || !program.wait_for("\n")) return 0;
  return std::atoll(program.seen().c_str() + program.seen().find(start) + start.size());
}

const char* const kBody = R"({"model":"llama","prompt":[1,2,3],"max_tokens":4,"temperature":0})";

TEST(ServeProgram, StartsAnswersAndStops) {
  for (const int number : {SIGTERM, SIGINT}) {
    BackgroundProgram program(serve("0", {"--model-name", "llama", "--api-key", "hidden"}));
    const int64_t port = port_of(program);
    ASSERT_GT(port, 0) << program.seen();
    EXPECT_NE(program.seen().find("\"max_batch\":64"), std::string::npos) << program.seen();
    EXPECT_NE(program.seen().find("memory of cpu: "), std::string::npos) << program.seen();
    EXPECT_EQ(program.seen().find("hidden"), std::string::npos) << "the key is printed";
    HttpClient client(port);
    client.send(http_request("POST", "/v1/completions", kBody, "Authorization: Bearer hidden\r\n"));
    const HttpResponse response = client.receive();
    EXPECT_EQ(response.status, 200) << response.body;
    program.send_signal(number);
    EXPECT_EQ(program.wait_for_exit(), 0) << program.seen();
  }
}

TEST(ServeProgram, ATakenPortIsNamed) {
  BackgroundProgram first(serve("0"));
  const int64_t port = port_of(first);
  ASSERT_GT(port, 0) << first.seen();
  const ProgramResult second =
      run_program({.arguments = serve(std::to_string(port)), .input = "", .environment = {}});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_NE(second.err.find(fmt::format("cannot listen on 127.0.0.1 port {}", port)),
            std::string::npos)
      << second.err;
  EXPECT_NE(second.err.find("--port"), std::string::npos) << second.err;
  EXPECT_EQ(HttpClient(port).call("GET", "/health").status, 200);
}

TEST(ServeProgram, RestartsOnItsPortAfterAKill) {
  std::string port = "0";
  std::string text;
  for (int round = 0; round < 3; ++round) {
    BackgroundProgram program(serve(port));
    const int64_t number = port_of(program);
    ASSERT_GT(number, 0) << program.seen();
    port = std::to_string(number);
    HttpClient client(number);
    const json out = json::parse(client.post("/v1/completions", kBody).body, nullptr, false);
    ASSERT_TRUE(out.contains("choices")) << out;
    if (text.empty()) text = out["choices"][0]["text"];
    EXPECT_EQ(out["choices"][0]["text"], text);
    client.send(http_request("POST", "/v1/completions", kBody));  // in flight, perhaps
    program.send_signal(SIGKILL);
    EXPECT_EQ(program.wait_for_exit(), 128 + SIGKILL);
  }
}

TEST(ServeProgram, RefusesWhatItCannotUse) {
  const struct {
    std::vector<std::string> more;
    std::string message;
    int code;
  } cases[] = {
      {{"--host", "256.0.0.1"}, "256.0.0.1", 1},
      {{"--seed", "1"}, "--seed", 2},
      {{"--max-body-bytes", "1"}, "out of range", 2},
      {{"--threads", "1000"}, "--threads", 2},
  };
  for (const auto& c : cases) {
    std::vector<std::string> words = serve("0");
    words.resize(c.more.front() == "--threads" ? 4 : 6);
    words.insert(words.end(), c.more.begin(), c.more.end());
    const ProgramResult result = run_program({.arguments = words, .input = "", .environment = {}});
    EXPECT_EQ(result.exit_code, c.code) << result.err;
    EXPECT_NE(result.err.find(c.message), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace ashlar
