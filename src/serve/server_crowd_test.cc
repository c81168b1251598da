// The server under a crowd, on a real engine over a toy model: a storm of streams of which a third
// is cut off, clients that read slowly or vanish, a queue that is full, a prompt of a megabyte
// beside a stream, a stop while answers run. Whoever behaves gets exactly what it would get alone.
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "testing/http_client.h"
#include "testing/random.h"
#include "testing/test_server.h"

namespace ashlar {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

const char* const kCompletions = "/v1/completions";
constexpr std::chrono::hours kHeld{1};  // a step that ends when the test lets it

json parse(const std::string& text) { return json::parse(text, nullptr, false); }

// What a client can see of an answer: text, tokens and log probabilities to the bit, how it ended.
struct Seen {
  std::string text;
  json tokens = json::array(), logprobs = json::array(), tops = json::array();
  json finish;
  json usage;
  bool done = false;
  friend bool operator==(const Seen&, const Seen&) = default;
};

// Reads a stream; after `events` events it cuts the connection off. Negative: never.
Seen read_stream(HttpClient& client, int64_t events) {
  Seen seen;
  const HttpResponse head = client.receive_head();
  EXPECT_EQ(head.status, 200);
  while (true) {
    if (events-- == 0) {
      client.vanish();
      return seen;
    }
    const auto event = client.receive_event();
    if (!event) return seen;
    if (*event == "[DONE]") {
      seen.done = true;
      continue;
    }
    const json chunk = parse(*event);
    if (chunk["choices"].empty()) {
      seen.usage = chunk["usage"];
      continue;
    }
    const json& choice = chunk["choices"][0];
    seen.text += choice["text"].get<std::string>();
    if (!choice["finish_reason"].is_null()) seen.finish = choice["finish_reason"];
    if (choice["logprobs"].is_null()) continue;
    const auto append = [](json& to, const json& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(seen.tokens, choice["logprobs"]["tokens"]);
    append(seen.logprobs, choice["logprobs"]["token_logprobs"]);
    append(seen.tops, choice["logprobs"]["top_logprobs"]);
  }
}

std::string storm_body(Random& random, int64_t i) {
  std::string prompt;
  for (int64_t k = 1 + random.below(150); k > 0; --k) {
    prompt += static_cast<char>('a' + random.below(26));
  }
  std::string more = fmt::format(
      R"("stream":true,"stream_options":{{"include_usage":true}},"seed":{},"max_tokens":{})", i,
      5 + random.below(120));
  if (i % 3 == 0) more += R"(,"temperature":0)";
  if (i % 3 == 1) more += R"(,"temperature":1.2,"top_p":0.9)";
  if (i % 4 == 1) more += R"(,"top_k":20,"repetition_penalty":1.3)";
  if (i % 5 == 2) more += R"(,"presence_penalty":1,"frequency_penalty":0.5)";
  if (i % 2 == 0) more += R"(,"logprobs":2)";
  if (i % 7 == 3) more += R"(,"stop":["qu","z"])";
  if (i % 6 == 0) more += R"(,"ignore_eos":true)";
  return completion_body(prompt, more);
}

TEST(ServerCrowd, SurvivorsOfAStormGetWhatTheyWouldGetAlone) {
  constexpr int64_t kClients = 64;
  TestServerOptions options;
  options.engine.max_batch = 24;          // so some wait
  options.engine.kv_positions = 32 * 16;  // and some are preempted
  TestServer server(options);
  Random random(2026);
  std::vector<std::string> bodies;
  std::vector<int64_t> cuts;
  for (int64_t i = 0; i < kClients; ++i) {
    bodies.push_back(storm_body(random, i));
    cuts.push_back(i % 3 == 2 ? random.below(40) : -1);
  }
  std::vector<Seen> alone(kClients), crowd(kClients);
  {
    HttpClient client(server.port());
    for (int64_t i = 0; i < kClients; ++i) {
      if (cuts[static_cast<size_t>(i)] >= 0) continue;
      client.send(http_request("POST", kCompletions, bodies[static_cast<size_t>(i)]));
      alone[static_cast<size_t>(i)] = read_stream(client, -1);
    }
  }
  // Slow enough that all clients are there before many answers are done, on a busy machine, too.
  server.set_step_time(milliseconds(3));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      HttpClient client(server.port());
      client.send(http_request("POST", kCompletions, bodies[i]));
      crowd[i] = read_stream(client, cuts[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(server.settles()) << "pages are missing";
  std::set<std::string> texts;
  for (size_t i = 0; i < kClients; ++i) {
    if (cuts[i] >= 0) continue;
    EXPECT_TRUE(crowd[i].done) << i;
    EXPECT_EQ(crowd[i].text, alone[i].text) << i;
    EXPECT_EQ(crowd[i].tokens, alone[i].tokens) << i;
    EXPECT_EQ(crowd[i].logprobs, alone[i].logprobs) << i;
    EXPECT_EQ(crowd[i].tops, alone[i].tops) << i;
    EXPECT_EQ(crowd[i].finish, alone[i].finish) << i;
    EXPECT_EQ(crowd[i].usage["completion_tokens"], alone[i].usage["completion_tokens"]) << i;
    EXPECT_EQ(crowd[i].logprobs.empty(), i % 2 != 0);
    texts.insert(alone[i].text);
  }
  EXPECT_GT(texts.size(), 30u) << "the answers hardly differ";
  EXPECT_GT(server.engine().stats().preemptions, 0) << "pages were not tight";
}

// Streaming or not, before the first token or in the middle.
TEST(ServerCrowd, AVanishedClientEndsItsRequest) {
  TestServer server;
  server.set_step_time(milliseconds(5));
  for (const char* more : {R"("max_tokens":400,"ignore_eos":true)",
                           R"("max_tokens":400,"ignore_eos":true,"stream":true)"}) {
    for (const bool reset : {false, true}) {
      HttpClient client(server.port());
      client.send(http_request("POST", kCompletions, completion_body("x", more)));
      while (server.engine().stats().running == 0) std::this_thread::sleep_for(milliseconds(1));
      const Clock::time_point start = Clock::now();
      reset ? client.vanish() : client.close();
      EXPECT_TRUE(server.settles());
      EXPECT_LT(Clock::now() - start, std::chrono::seconds(1)) << more;  // it would take two
    }
  }
}

TEST(ServerCrowd, ASlowReaderIsGivenUpAndHarmsNobody) {
  // More than the socket's buffers of both sides can swallow, which are about four megabytes.
  TestServerOptions options;
  options.context = 4096;
  options.server.max_backlog_bytes = 64 << 10;
  options.server.write_timeout_ms = 500;
  TestServer server(options);
  HttpClient slow(server.port());
  slow.send(
      http_request("POST", kCompletions,
                   completion_body("x", R"("max_tokens":4000,"ignore_eos":true,"stream":true,)"
                                        R"("logprobs":100)")));
  EXPECT_EQ(slow.receive_head().status, 200);  // and then it reads no more
  HttpClient other(server.port());
  const std::string body = completion_body("y", R"("max_tokens":100,"ignore_eos":true,"seed":1)");
  const HttpResponse first = other.post(kCompletions, body);
  EXPECT_EQ(first.status, 200);
  EXPECT_TRUE(server.settles()) << "the slow reader's request runs on";
  EXPECT_EQ(parse(other.post(kCompletions, body).body)["choices"], parse(first.body)["choices"]);
  while (slow.receive_event()) {
  }
  EXPECT_FALSE(slow.body_ended()) << "it should have been cut off";
}

// Behind for a while, but not for good: events wait for it.
TEST(ServerCrowd, AReaderThatPausesLosesNothing) {
  TestServerOptions options;
  options.context = 4096;
  options.server.max_backlog_bytes = 16 << 10;
  TestServer server(options);
  const std::string body = completion_body(
      "x", R"("max_tokens":600,"ignore_eos":true,"seed":1,"stream":true,"logprobs":20)");
  HttpClient fast(server.port()), slow(server.port());
  server.set_step_time(milliseconds(2));
  fast.send(http_request("POST", kCompletions, body));
  const Seen wanted = read_stream(fast, -1);
  EXPECT_EQ(wanted.tokens.size(), 600u);
  slow.send(http_request("POST", kCompletions, body));
  EXPECT_EQ(slow.receive_head().status, 200);
  json tokens = json::array();
  bool done = false;
  for (int events = 0; const auto event = slow.receive_event(); ++events) {
    if (events % 150 == 10) std::this_thread::sleep_for(milliseconds(150));
    done = *event == "[DONE]";
    if (done) continue;
    const json chunk = parse(*event);
    const json& logprobs = chunk["choices"][0]["logprobs"];
    if (logprobs.is_null()) continue;  // the finish reason
    tokens.insert(tokens.end(), logprobs["tokens"].begin(), logprobs["tokens"].end());
  }
  EXPECT_TRUE(done);
  EXPECT_EQ(tokens, wanted.tokens);
}

TEST(ServerCrowd, TenThousandWaitAndTheNextIsTold) {
  TestServerOptions options;
  options.engine.max_waiting = 10'000;
  TestServer server(options);
  server.set_step_time(milliseconds(200));
  constexpr size_t kClients = 10;
  std::string prompts = "\"x\"";
  for (int i = 1; i < 1000; ++i) prompts += ",\"x\"";
  const std::string body = R"({"model":"toy","max_tokens":2,"ignore_eos":true,"temperature":0,)"
                           R"("prompt":[)" +
                           prompts + "]}";
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server.port(), 600));
    clients.back()->send(http_request("POST", kCompletions, body));
  }
  HttpClient late(server.port());
  // All of them are in; the first run already.
  const auto waiting = [&] { return server.engine().stats().waiting; };
  const auto arrived = [&] {
    const EngineStats stats = server.engine().stats();
    return stats.waiting + stats.running + stats.finished;
  };
  const Clock::time_point end = Clock::now() + std::chrono::seconds(300);
  while (arrived() < 10'000 && Clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
  ASSERT_GE(waiting(), 9900);
  const HttpResponse refused = late.post(kCompletions, body);
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  EXPECT_NE(refused.body.find("max_waiting 10000"), std::string::npos) << refused.body;
  server.set_step_time(microseconds(0));
  json first;
  for (const auto& client : clients) {
    const json out = parse(client->receive().body);
    ASSERT_TRUE(out.contains("choices")) << out.dump().substr(0, 300);
    ASSERT_EQ(out["choices"].size(), 1000u) << out.dump().substr(0, 200);
    if (first.is_null()) first = out["choices"][0]["text"];
    for (const json& choice : out["choices"]) ASSERT_EQ(choice["text"], first);
  }
  EXPECT_TRUE(server.settles());
}

TEST(ServerCrowd, TenThousandRequestsBeyondTheQueueAreRefusedOneByOne) {
  TestServerOptions options;
  options.engine.max_waiting = 4;
  options.engine.max_batch = 1;
  TestServer server(options);
  const std::string body = completion_body("x", R"("max_tokens":400,"ignore_eos":true,"seed":1)");
  HttpClient runner(server.port());
  const HttpResponse wanted = runner.post(kCompletions, body);
  ASSERT_TRUE(server.settles());  // or the first answer is taken for the second one below
  server.set_step_time(milliseconds(5));
  runner.send(http_request("POST", kCompletions, body));
  while (server.engine().stats().running != 1) std::this_thread::sleep_for(milliseconds(1));
  server.set_step_time(kHeld);
  std::vector<std::unique_ptr<HttpClient>> waiting;
  for (int i = 0; i < 4; ++i) {
    while (server.engine().stats().waiting != i) std::this_thread::sleep_for(milliseconds(1));
    waiting.push_back(std::make_unique<HttpClient>(server.port()));
    waiting.back()->send(http_request("POST", kCompletions, completion_body("y")));
  }
  while (server.engine().stats().waiting < 4) std::this_thread::sleep_for(milliseconds(1));
  std::atomic<int> refused = 0, other = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      HttpClient client(server.port());
      std::string ten;
      for (int i = 0; i < 10; ++i) ten += http_request("POST", kCompletions, completion_body("z"));
      for (int i = 0; i < 250; ++i) {
        client.send(ten);
        for (int k = 0; k < 10; ++k) (client.receive().status == 429 ? refused : other)++;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 10'000);
  EXPECT_EQ(other, 0);
  server.set_step_time(microseconds(0));
  EXPECT_EQ(parse(runner.receive().body)["choices"], parse(wanted.body)["choices"]);
  for (const auto& client : waiting) EXPECT_EQ(client->receive().status, 200);
  EXPECT_TRUE(server.settles());
}

struct Gaps {
  int64_t longest_ms = 0;
  int events = 0;
};

// Streams so many tokens, a step of 10 ms each, and measures the time between events.
Gaps stream_gaps(TestServer& server, int64_t tokens) {
  HttpClient stream(server.port());
  const std::string more =
      fmt::format(R"("max_tokens":{},"ignore_eos":true,"stream":true,"logprobs":0)", tokens);
  stream.send(http_request("POST", kCompletions, completion_body("x", more)));
  EXPECT_EQ(stream.receive_head().status, 200);
  EXPECT_TRUE(stream.receive_event());
  Gaps gaps;
  for (Clock::time_point last = Clock::now(); stream.receive_event(); ++gaps.events) {
    const Clock::time_point now = Clock::now();
    const int64_t gap_ms = std::chrono::duration_cast<milliseconds>(now - last).count();
    gaps.longest_ms = std::max(gaps.longest_ms, gap_ms);
    last = now;
  }
  return gaps;
}

// What a stream waits beyond its steps, and beyond what the machine makes it wait anyway, is what
// the long prompts cost it. Encoded on the loop or on the engine's thread, each would cost seconds.
TEST(ServerCrowd, APromptOfAMegabyteDelaysNoStream) {
  TestServerOptions options;
  options.context = 300'000;  // or a megabyte would be refused unread
  options.engine.kv_positions = 16 * 512;
  TestServer server(options);
  server.set_step_time(milliseconds(10));
  const Gaps quiet = stream_gaps(server, 100);
  std::atomic<bool> streaming = true;
  std::atomic<int> long_ones = 0, short_ones = 0;
  std::thread longs([&] {
    HttpClient client(server.port());
    const std::string words = "a word and another one ";
    std::string prompt;
    while (prompt.size() < 1'000'000) prompt += words;
    while (streaming) {
      const HttpResponse response = client.post(kCompletions, completion_body(prompt));
      EXPECT_EQ(response.status, 400);
      EXPECT_NE(response.body.find("context_length_exceeded"), std::string::npos) << response.body;
      ++long_ones;
    }
  });
  std::thread shorts([&] {
    HttpClient client(server.port());
    while (streaming) {
      EXPECT_EQ(client.call("GET", "/health").status, 200);
      EXPECT_EQ(client.post(kCompletions, R"({"model":"no"})").status, 400);
      ++short_ones;
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  const Gaps gaps = stream_gaps(server, 300);
  streaming = false;
  longs.join();
  shorts.join();
  EXPECT_GT(gaps.events, 290);
  EXPECT_GT(long_ones, 0);
  EXPECT_GT(short_ones, 10);
  RecordProperty("quiet_gap_ms", static_cast<int>(quiet.longest_ms));
  RecordProperty("longest_gap_ms", static_cast<int>(gaps.longest_ms));
  RecordProperty("long_prompts", long_ones.load());
  EXPECT_LT(gaps.longest_ms, 1000 + 3 * quiet.longest_ms) << long_ones << " long prompts";
}

TEST(ServerCrowd, LimitsOnPromptsAreToldApart) {
  TestServerOptions options;
  options.server.max_prompt_bytes = 1000;
  TestServer server(options);
  HttpClient client(server.port());
  const HttpResponse big = client.post(kCompletions, completion_body(std::string(1001, 'x')));
  EXPECT_EQ(big.status, 400);
  EXPECT_NE(big.body.find("max_prompt_bytes"), std::string::npos) << big.body;
  options.server.max_prompt_bytes = 4 << 20;
  options.server.prompt_timeout_ms = 1;
  TestServer hurried(options);
  HttpClient other(hurried.port());
  const HttpResponse late = other.post(kCompletions, completion_body(std::string(2 << 20, 'x')));
  EXPECT_EQ(late.status, 503);
  EXPECT_NE(late.body.find("prompt_timeout"), std::string::npos) << late.body;
  EXPECT_TRUE(hurried.settles());
}

TEST(ServerCrowd, DrainingFinishesWhatRunsAndRefusesTheRest) {
  TestServer server;
  server.set_step_time(milliseconds(5));
  HttpClient idle(server.port()), running(server.port()), next(server.port());
  EXPECT_EQ(next.call("GET", "/health").status, 200);
  running.send(http_request("POST", kCompletions,
                            completion_body("x", R"("max_tokens":60,"ignore_eos":true)")) +
               http_request("GET", "/health"));
  while (server.engine().stats().running == 0) std::this_thread::sleep_for(milliseconds(1));
  server.server().drain();
  EXPECT_TRUE(idle.closed_by_server());
  EXPECT_FALSE(HttpClient(server.port()).call("GET", "/health").status == 200);
  const HttpResponse last = running.receive();
  EXPECT_EQ(last.status, 200);
  EXPECT_EQ(last.headers.at("connection"), "close");
  EXPECT_EQ(parse(last.body)["usage"]["completion_tokens"], 60);
  EXPECT_TRUE(running.closed_by_server());
  EXPECT_TRUE(server.server().wait_idle(milliseconds(5000)));
  EXPECT_TRUE(server.settles());
}

// Stopping the engine under running streams tells each client, and ends all of it.
TEST(ServerCrowd, AStopTellsWhoStillWaits) {
  TestServer server;
  server.set_step_time(milliseconds(10));
  HttpClient whole(server.port()), stream(server.port());
  whole.send(http_request("POST", kCompletions,
                          completion_body("x", R"("max_tokens":400,"ignore_eos":true)")));
  stream.send(http_request(
      "POST", kCompletions,
      completion_body("x", R"("max_tokens":400,"ignore_eos":true,"stream":true,"logprobs":0)")));
  EXPECT_EQ(stream.receive_head().status, 200);
  while (server.engine().stats().running < 2) std::this_thread::sleep_for(milliseconds(1));
  server.server().drain();
  server.engine().stop();
  EXPECT_EQ(whole.receive().status, 503);
  std::string last;
  while (const auto event = stream.receive_event()) last = *event;
  EXPECT_EQ(parse(last)["error"]["code"], "stopping") << last;
  EXPECT_TRUE(server.server().wait_idle(milliseconds(5000)));
}

}  // namespace
}  // namespace ashlar
