// The server as a client meets it: routes, both endpoints, errors, and the rules of HTTP/1.1. On a
// real engine over a toy model, through plain sockets.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "testing/http_client.h"
#include "testing/test_server.h"

namespace ashlar {
namespace {

using nlohmann::json;

const char* const kCompletions = "/v1/completions";
const char* const kChat = "/v1/chat/completions";

std::string chat_body(std::string_view more = {}) {
  return fmt::format(R"({{"model":"toy","messages":[{{"role":"user","content":"hi"}}]{}{}}})",
                     more.empty() ? "" : ",", more);
}

json parse(const std::string& text) { return json::parse(text, nullptr, false); }

// All chunks of a stream that ends with [DONE].
std::vector<json> chunks(HttpClient& client, std::string_view path, const std::string& body) {
  client.send(http_request("POST", path, body));
  const HttpResponse head = client.receive_head();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-type"), "text/event-stream; charset=utf-8");
  std::vector<json> out;
  std::string last;
  while (const auto event = client.receive_event()) {
    last = *event;
    if (last != "[DONE]") out.push_back(parse(last));
  }
  EXPECT_EQ(last, "[DONE]");
  EXPECT_TRUE(client.body_ended());
  return out;
}

TEST(Server, ListsItsModel) {
  TestServer server;
  HttpClient client(server.port());
  const HttpResponse list = client.call("GET", "/v1/models");
  EXPECT_EQ(list.status, 200);
  EXPECT_EQ(parse(list.body)["data"][0]["id"], "toy");
  EXPECT_EQ(parse(list.body)["data"][0]["max_model_len"], 512);
  EXPECT_EQ(parse(client.call("GET", "/v1/models/other/name").body)["id"], "other/name");
  EXPECT_EQ(parse(client.call("GET", "/v1/models/other%2Fname").body)["id"], "other/name");
  const HttpResponse none = client.call("GET", "/v1/models/gpt");
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(parse(none.body)["error"]["code"], "model_not_found");
}

TEST(Server, RefusesMethodsAndPaths) {
  TestServer server;
  HttpClient client(server.port());
  const HttpResponse put = client.call("PUT", kCompletions, "{}");
  EXPECT_EQ(put.status, 405);
  EXPECT_EQ(put.headers.at("allow"), "POST");
  const HttpResponse options = client.call("OPTIONS", "/v1/models");
  EXPECT_EQ(options.status, 405);
  EXPECT_EQ(options.headers.at("allow"), "GET, HEAD");
  EXPECT_EQ(client.call("GET", "/v1/nothing").status, 404);
  EXPECT_EQ(client.call("GET", "/health?verbose=1").status, 400);
  const HttpResponse health = client.call("GET", "/health");
  EXPECT_EQ(parse(health.body)["status"], "ok");
  client.send("HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.receive_head().status, 200);
  client.send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");  // no body stood in between
  EXPECT_EQ(client.receive_head().status, 200);
}

TEST(Server, CompletesTextAndTokens) {
  TestServer server;
  HttpClient client(server.port());
  const json text =
      parse(client.post(kCompletions, completion_body("ab", R"("temperature":0,"ignore_eos":true)"))
                .body);
  EXPECT_EQ(text["object"], "text_completion");
  EXPECT_EQ(text["usage"]["prompt_tokens"], 6);  // BOS, three bytes of the space in front, a, b
  EXPECT_EQ(text["usage"]["completion_tokens"], 16);
  EXPECT_EQ(text["usage"]["total_tokens"], 22);
  EXPECT_EQ(text["choices"][0]["finish_reason"], "length");
  const json ids = parse(
      client
          .post(
              kCompletions,
              R"({"model":"toy","prompt":[1,229,153,132,100,101],"temperature":0,"ignore_eos":true})")
          .body);
  EXPECT_EQ(ids["choices"][0]["text"], text["choices"][0]["text"]);
  const json echo =
      parse(client
                .post(kCompletions,
                      completion_body("ab", R"("temperature":0,"ignore_eos":true,"echo":true)"))
                .body);
  EXPECT_EQ(echo["choices"][0]["text"], "ab" + text["choices"][0]["text"].get<std::string>());
}

// Prompts and choices are numbered prompt * n + choice, and each answer is what it is alone.
TEST(Server, NumbersPromptsAndChoices) {
  TestServer server;
  HttpClient client(server.port());
  const std::string more = R"("n":2,"seed":5,"max_tokens":6,"ignore_eos":true)";
  const json both =
      parse(client.post(kCompletions, R"({"model":"toy","prompt":["a","b"],)" + more + "}").body);
  ASSERT_EQ(both["choices"].size(), 4u) << both;
  std::set<std::string> texts;
  for (int p = 0; p < 2; ++p) {
    const json alone =
        parse(client.post(kCompletions, completion_body(p == 0 ? "a" : "b", more)).body);
    for (int c = 0; c < 2; ++c) {
      EXPECT_EQ(both["choices"][p * 2 + c]["index"], p * 2 + c);
      EXPECT_EQ(both["choices"][p * 2 + c]["text"], alone["choices"][c]["text"]);
      texts.insert(alone["choices"][c]["text"]);
    }
  }
  EXPECT_EQ(texts.size(), 4u);
  EXPECT_EQ(both["usage"]["completion_tokens"], 24);
  EXPECT_EQ(both["usage"]["prompt_tokens"], 10);  // each prompt once
}

TEST(Server, StreamsAChat) {
  TestServer server;
  HttpClient client(server.port());
  const std::string more = R"("seed":3,"max_tokens":12,"ignore_eos":true,"n":2)";
  const json whole = parse(client.post(kChat, chat_body(more)).body);
  const auto list = chunks(
      client, kChat, chat_body(more + R"(,"stream":true,"stream_options":{"include_usage":true})"));
  std::string texts[2];
  int roles[2] = {0, 0}, ends[2] = {0, 0};
  for (size_t i = 0; i + 1 < list.size(); ++i) {
    EXPECT_EQ(list[i]["id"], list[0]["id"]);
    EXPECT_TRUE(list[i]["usage"].is_null());
    const json& choice = list[i]["choices"][0];
    const int index = choice["index"];
    EXPECT_EQ(ends[index], 0) << "something after the finish reason";
    if (choice["delta"].contains("role")) ++roles[index];
    EXPECT_EQ(roles[index], 1) << "the role comes first, and once";
    texts[index] += choice["delta"].value("content", "");
    if (!choice["finish_reason"].is_null()) ++ends[index];
  }
  for (int c = 0; c < 2; ++c) {
    EXPECT_EQ(texts[c], whole["choices"][c]["message"]["content"]);
    EXPECT_EQ(ends[c], 1);
  }
  EXPECT_EQ(list.back()["choices"], json::array());
  EXPECT_EQ(list.back()["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
}

// Each field that a request may hold changes the answer.
TEST(Server, EveryFieldReachesTheEngine) {
  TestServer server;
  HttpClient client(server.port());
  const std::string base = R"("seed":1,"max_tokens":24,"ignore_eos":true,"temperature":1.5)";
  const json plain = parse(client.post(kChat, chat_body(base)).body);
  ASSERT_TRUE(plain.contains("choices")) << plain;
  const std::string content = plain["choices"][0]["message"]["content"];
  const auto letter = std::ranges::find_if(content, [](char c) { return c > ' ' && c < 0x7f; });
  ASSERT_NE(letter, content.end());
  const std::string stop = R"("stop":)" + json(std::string(1, *letter)).dump();
  for (
      const std::string& field : std::vector<std::string>{
          stop, R"("seed":2)", R"("max_tokens":5)", R"("temperature":0.1)", R"("top_k":1)",
          R"("top_p":0.05)", R"("min_p":0.9)", R"("presence_penalty":90)",
          R"("frequency_penalty":90)", R"("repetition_penalty":90)", R"("logit_bias":{"70":100})",
          R"("stop_token_ids":[10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31])",
          R"("logprobs":true)", R"("chat_template_kwargs":{"loud":1})",
          R"("add_generation_prompt":false)", R"("n":2)", R"("max_completion_tokens":5)"}) {
    // Later keys of the same name would be refused, so the base is rewritten.
    json body = parse(chat_body(base));
    body.update(parse("{" + field + "}"));
    if (body.contains("max_completion_tokens")) body.erase("max_tokens");
    const json changed = parse(client.post(kChat, body.dump()).body);
    ASSERT_TRUE(changed.contains("choices")) << field << changed;
    EXPECT_NE(changed["choices"], plain["choices"]) << field;
  }
}

TEST(Server, TellsWhatIsWrongWithARequest) {
  TestServer server;
  HttpClient client(server.port());
  const struct {
    const char* path;
    std::string body;
    int status;
    const char* param;
    const char* message;
  } cases[] = {
      {kChat, "{\"model\":", 400, nullptr, "line 1, column"},
      {kChat, "{\"model\":\"\xc3(\"}", 400, nullptr, "UTF-8"},
      {kChat, std::string(5000, '['), 400, nullptr, "nested deeper"},
      {kChat, chat_body(R"("top_p":2)"), 400, "top_p", "0 to 1"},
      {kChat, R"({"model":"gpt","messages":[{"role":"user","content":"x"}]})", 404, "model",
       "\"toy\""},
      {kCompletions, R"({"model":"toy","prompt":[264]})", 400, "prompt", "264"},
      {kCompletions, completion_body(std::string(600, 'x')), 400, "prompt", "604 tokens"},
      {kCompletions, completion_body(std::string(600, 'x')), 400, "prompt", "512"},
      {kCompletions, completion_body("x", R"("stop_token_ids":[259])"), 400, "stop_token_ids",
       "stop_token_ids: "},
      {kCompletions, completion_body("x", R"("max_tokens":123456789012345678901234567890)"), 400,
       "max_tokens", "out of range, 1 to"},
      {kCompletions, "{\"model\":\"toy\",\n \"temperature\":1e999}", 400, nullptr,
       "line 2, column 16"},
      {kCompletions, completion_body("x", R"("logit_bias":{"259":1})"), 400, "logit_bias", "259"},
  };
  for (const auto& c : cases) {
    const HttpResponse response = client.post(c.path, c.body);
    EXPECT_EQ(response.status, c.status) << response.body;
    const json error = parse(response.body)["error"];
    EXPECT_EQ(error["param"], c.param == nullptr ? json() : json(c.param)) << response.body;
    EXPECT_NE(error["message"].get<std::string>().find(c.message), std::string::npos) << error;
  }
  const json over = parse(client.post(kCompletions, completion_body(std::string(600, 'x'))).body);
  EXPECT_EQ(over["error"]["code"], "context_length_exceeded");
  const json echo =
      parse(client.post(kCompletions, R"({"model":"toy","prompt":[264],"echo":true})").body);
  EXPECT_EQ(echo["error"]["param"], "prompt");
  EXPECT_TRUE(echo["error"]["code"].is_null()) << echo;
  EXPECT_TRUE(server.settles());
}

// (512 + 1) tokens of six bytes, "<0x0A>", are the most that could be meant to fit.
TEST(Server, RefusesATextThatCannotFitWithoutEncodingIt) {
  TestServer server;
  HttpClient client(server.port());
  const struct {
    const char* path;
    const char* param;
    std::string body;
  } cases[] = {{kCompletions, "prompt", completion_body(std::string(3079, 'x'))},
               {kChat, "messages",
                R"({"model":"toy","messages":[{"role":"user","content":")" +
                    std::string(3079, 'x') + "\"}]}"}};
  for (const auto& c : cases) {
    const HttpResponse response = client.post(c.path, c.body);
    EXPECT_EQ(response.status, 400);
    const json error = parse(response.body)["error"];
    EXPECT_EQ(error["code"], "context_length_exceeded") << error;
    EXPECT_EQ(error["param"], c.param);
    EXPECT_NE(error["message"].get<std::string>().find("the 3078 that could fit"),
              std::string::npos)
        << error;
  }
  const std::string fits = client.post(kCompletions, completion_body(std::string(3078, 'x'))).body;
  EXPECT_NE(fits.find("3082 tokens"), std::string::npos) << fits;
}

TEST(Server, FillsTheContextAndSaysSo) {
  TestServer server;
  HttpClient client(server.port());
  const json out = parse(
      client.post(kCompletions, completion_body("abc", R"("max_tokens":100000,"ignore_eos":true)"))
          .body);
  EXPECT_EQ(out["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(out["usage"]["total_tokens"], 512);
}

// A row that the model cannot compute ends its own request, in the form that fits.
TEST(Server, AFailureInTheMiddleIsToldInTheStream) {
  TestServer server;
  server.set_poison(40);
  HttpClient client(server.port());
  const std::string body = R"({"model":"toy","prompt":[40],"max_tokens":4)";
  EXPECT_EQ(client.post(kCompletions, body + "}").status, 500);
  client.send(http_request("POST", kCompletions, body + R"(,"stream":true})"));
  EXPECT_EQ(client.receive_head().status, 200);
  const auto event = client.receive_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(parse(*event)["error"]["type"], "server_error") << *event;
  EXPECT_FALSE(client.receive_event());
  EXPECT_TRUE(client.body_ended());
  EXPECT_EQ(client.post(kCompletions, completion_body("x", R"("max_tokens":1)")).status, 200);
  EXPECT_TRUE(server.settles());
}

TEST(Server, WantsItsKey) {
  TestServerOptions options;
  options.server.api_key = "secret";
  TestServer server(options);
  HttpClient client(server.port());
  EXPECT_EQ(client.call("GET", "/v1/models").status, 401);
  EXPECT_EQ(client.call("GET", "/health").status, 200);
  for (const auto& [key, status] : {std::pair("secret", 200), std::pair("secreT", 401),
                                    std::pair("secrets", 401), std::pair("", 401)}) {
    client.send(
        http_request("GET", "/v1/models", "", fmt::format("Authorization: Bearer {}\r\n", key)));
    EXPECT_EQ(client.receive().status, status) << key;
  }
}

TEST(ServerHttp, AnswersPipelinedRequestsInOrder) {
  TestServer server;
  HttpClient client(server.port());
  std::string all;
  for (int i = 1; i <= 20; ++i) {
    all +=
        http_request("POST", kCompletions,
                     completion_body("x", fmt::format(R"("max_tokens":{},"ignore_eos":true)", i)));
    all += http_request("GET", "/health");
  }
  client.send(all);
  for (int i = 1; i <= 20; ++i) {
    EXPECT_EQ(parse(client.receive().body)["usage"]["completion_tokens"], i);
    EXPECT_EQ(parse(client.receive().body)["status"], "ok");
  }
}

TEST(ServerHttp, TakesARequestByteByByte) {
  TestServer server;
  HttpClient client(server.port());
  const std::string request = http_request("POST", kCompletions, completion_body("split"));
  for (const char c : request) client.send(std::string_view(&c, 1));
  EXPECT_EQ(client.receive().status, 200);
}

TEST(ServerHttp, TakesEmptyLinesAndWholeUrls) {
  TestServer server;
  HttpClient client(server.port());
  client.send("\r\n\r\n" + http_request("GET", "/health") + "\r\n");
  EXPECT_EQ(client.receive().status, 200);
  client.send("\r");
  client.send("\n");
  client.send(http_request("GET", "HTTP://any.host:80/v1/models/toy"));
  EXPECT_EQ(parse(client.receive().body)["id"], "toy");
  EXPECT_EQ(client.call("GET", "http://any.host").status, 404);
  EXPECT_EQ(client.call("GET", "https://any.host?x=1").status, 404);
  EXPECT_EQ(client.call("GET", "ftp://any.host/health").status, 400);
}

// All that was sent is answered, in order, and then the connection ends.
TEST(ServerHttp, AnswersAClientThatSendsNoMore) {
  TestServer server;
  server.set_step_time(std::chrono::milliseconds(5));
  for (const bool old : {false, true}) {
    HttpClient client(server.port());
    const std::string body = completion_body("x", R"("max_tokens":40,"ignore_eos":true)");
    std::string request = http_request("POST", kCompletions, body);
    if (old) request.replace(request.find("HTTP/1.1"), 8, "HTTP/1.0");
    client.send(request + (old ? "" : http_request("GET", "/health")));
    client.half_close();
    HttpResponse answer = client.receive();
    while (!old && answer.status == 100) answer = client.receive();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(parse(answer.body)["usage"]["completion_tokens"], 40) << answer.body;
    if (!old) {
      EXPECT_EQ(client.receive().status, 200);
    }
    EXPECT_TRUE(client.closed_by_server());
  }
  HttpClient stream(server.port());
  stream.send(
      http_request("POST", kCompletions, completion_body("x", R"("max_tokens":40,"stream":true)")));
  stream.half_close();
  HttpResponse answer = stream.receive();
  while (answer.status == 100) answer = stream.receive();
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n")) << answer.body;
  EXPECT_TRUE(server.settles());
}

TEST(ServerHttp, KeepsOrClosesAsAsked) {
  TestServer server;
  HttpClient old(server.port());
  old.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.receive().headers.at("connection"), "close");
  EXPECT_TRUE(old.closed_by_server());
  HttpClient close(server.port());
  close.send(http_request("GET", "/health", "", "Connection: close\r\n"));
  EXPECT_EQ(close.receive().headers.at("connection"), "close");
  EXPECT_TRUE(close.closed_by_server());
  HttpClient stream(server.port());
  stream.send(
      "POST /v1/completions HTTP/1.0\r\nContent-Length: 47\r\n\r\n"
      R"({"model":"toy","prompt":"abcd", "stream": true})");
  const HttpResponse response = stream.receive();
  EXPECT_FALSE(response.headers.contains("transfer-encoding"));
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n")) << response.body;
}

TEST(ServerHttp, SaysContinueToWhoWaits) {
  TestServer server;
  HttpClient client(server.port());
  const std::string body = completion_body("x");
  const std::string request = http_request("POST", kCompletions, body, "Expect: 100-continue\r\n");
  client.send(request.substr(0, request.size() - body.size()));
  EXPECT_EQ(client.receive_head().status, 100);
  client.send(body);
  EXPECT_EQ(client.receive().status, 200);
  client.send(http_request("GET", "/health", "", "Expect: miracles\r\n"));
  EXPECT_EQ(client.receive().status, 417);
}

TEST(ServerHttp, RefusesWhatIsNotHttp) {
  TestServer server;
  for (const auto& [bytes, status] :
       {std::pair<std::string, int>("BLAH\r\n\r\n", 400),
        {"GET /health HTTP/1.1\r\n\r\n", 400},
        {"GET /health HTTP/2.0\r\nHost: x\r\n\r\n", 400},
        {"GET /health HTTP/1.1\r\nHost: x\r\nX: " + std::string(20000, 'a') + "\r\n\r\n", 431},
        {"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400},
        {"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
         "Transfer-Encoding: chunked\r\n\r\n",
         400},
        {"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n"
         "Content-Length: 1\r\n\r\nx",
         415}}) {
    HttpClient client(server.port(), 10);
    client.send(bytes);
    const HttpResponse response = client.receive();
    EXPECT_EQ(response.status, status) << bytes.substr(0, 60) << response.body;
    EXPECT_TRUE(client.closed_by_server());
  }
}

// Refused by its announced length, by counting what came in chunks, and before anything is sent.
TEST(ServerHttp, RefusesABodyOf100MbWithoutReadingIt) {
  TestServer server;
  const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\n";
  HttpClient polite(server.port());
  polite.send(head + "Content-Length: 100000000\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(polite.receive().status, 413);
  for (const bool chunked : {false, true}) {
    HttpClient client(server.port());
    client.send(head + (chunked ? "Transfer-Encoding: chunked\r\n\r\n"
                                : "Content-Length: 100000000\r\n\r\n"));
    const std::string megabyte(1 << 20, ' ');
    int sent = 0;
    std::thread sender([&] {
      for (; sent < 100; ++sent) {
        if (chunked && !client.send("100000\r\n")) break;
        if (!client.send(megabyte)) break;
        if (chunked && !client.send("\r\n")) break;
      }
    });
    const HttpResponse response = client.receive();
    sender.join();
    EXPECT_EQ(response.status, 413) << response.body;
    EXPECT_EQ(parse(response.body)["error"]["code"], "body_too_large");
    EXPECT_LT(sent, 100) << "everything was read";
  }
  EXPECT_TRUE(server.settles());
}

TEST(ServerHttp, GivesUpOnWhoDoesNotFinishARequest) {
  TestServerOptions options;
  options.server.request_timeout_ms = 300;
  options.server.idle_timeout_ms = 300;
  TestServer server(options);
  HttpClient half(server.port());
  half.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{");
  EXPECT_EQ(half.receive().status, 408);
  HttpClient idle(server.port());
  EXPECT_TRUE(idle.closed_by_server());
  EXPECT_TRUE(server.settles());
}

TEST(ServerHttp, TurnsCrowdsAway) {
  TestServerOptions options;
  options.server.max_connections = 2;
  TestServer server(options);
  HttpClient a(server.port()), b(server.port());
  EXPECT_EQ(a.call("GET", "/health").status, 200);
  EXPECT_EQ(b.call("GET", "/health").status, 200);
  HttpClient c(server.port());
  const HttpResponse refused = c.call("GET", "/health");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  EXPECT_EQ(a.call("GET", "/health").status, 200);
}

}  // namespace
}  // namespace ashlar
