// Answers and chunks as clients read them: shape, order, escaping, log probabilities, errors.
#include "serve/openai_response.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "serve/json_append.h"
#include "serve/sse.h"
#include "testing/test_vocabulary.h"

namespace ashlar {
namespace {

using nlohmann::json;

Tokenizer byte_tokenizer() {
  TestVocabulary vocabulary = sentencepiece_vocabulary();
  return *Tokenizer::from_gguf(vocabulary.view("llama"));
}

// The id of a byte's token.
int32_t byte_id(unsigned char byte) { return 3 + byte; }

GeneratedToken token(unsigned char byte, float logprob, std::vector<TokenLogprob> top = {}) {
  return {byte_id(byte), logprob, std::move(top)};
}

AnswerWriter writer(ApiKind kind, bool logprobs = false, bool usage = false) {
  return {{kind, "id-1", 12, "the \"model\"", "fp"}, byte_tokenizer(), 2, logprobs, usage};
}

// The data of each event; checks the framing.
std::vector<std::string> events(std::string_view stream) {
  std::vector<std::string> out;
  while (!stream.empty()) {
    const size_t end = stream.find("\n\n");
    EXPECT_NE(end, std::string_view::npos);
    EXPECT_TRUE(stream.starts_with("data: "));
    out.emplace_back(stream.substr(6, end - 6));
    stream.remove_prefix(end + 2);
  }
  return out;
}

TEST(JsonAppend, EscapesAndRepairs) {
  std::string out;
  append_json_string(out, "a\"\\\n\x01\x7f\u00e9\xff\xe2\x82");
  EXPECT_EQ(out, "\"a\\\"\\\\\\n\\u0001\\u007f\u00e9\ufffd\ufffd\"");
  EXPECT_EQ(json::parse(out).get<std::string>(), "a\"\\\n\x01\x7f\u00e9\ufffd\ufffd");
}

TEST(JsonAppend, FloatsReadBackAsTheSameBits) {
  for (const float value : {0.0f, -0.1f, -1e-30f, -12.345678f, 3e38f}) {
    std::string out;
    append_json_float(out, value);
    EXPECT_EQ(static_cast<float>(json::parse(out).get<double>()), value) << out;
  }
  std::string out;
  append_json_float(out, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(out, "-9999");
}

TEST(OpenAiResponse, ChatChunks) {
  AnswerWriter w = writer(ApiKind::kChat, false, true);
  std::string out;
  w.append_start(out, 1);
  w.append_text(out, 1, "hi", {});
  w.append_text(out, 1, "", {});  // nothing to say: no chunk
  w.append_finish(out, 1, FinishReason::kLength);
  w.append_usage(out, {.prompt_tokens = 5, .cached_tokens = 2, .output_tokens = 3});
  append_sse_done(out);
  const auto list = events(out);
  ASSERT_EQ(list.size(), 5u);
  EXPECT_EQ(list[0],
            R"({"id":"id-1","object":"chat.completion.chunk","created":12,"model":"the \"model\"",)"
            R"("system_fingerprint":"fp","choices":[{"index":1,"delta":{"role":"assistant",)"
            R"("content":""},"logprobs":null,"finish_reason":null}],"usage":null})");
  EXPECT_EQ(json::parse(list[1])["choices"][0]["delta"], json({{"content", "hi"}}));
  EXPECT_EQ(json::parse(list[2])["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(json::parse(list[2])["choices"][0]["delta"], json::object());
  const json last = json::parse(list[3]);
  EXPECT_EQ(last["choices"], json::array());
  EXPECT_EQ(last["usage"], json({{"prompt_tokens", 5},
                                 {"completion_tokens", 3},
                                 {"total_tokens", 8},
                                 {"prompt_tokens_details", {{"cached_tokens", 2}}}}));
  EXPECT_EQ(list[4], "[DONE]");
}

TEST(OpenAiResponse, UsageAppearsOnlyWhenAskedFor) {
  AnswerWriter w = writer(ApiKind::kChat);
  std::string out;
  w.append_text(out, 0, "x", {});
  EXPECT_FALSE(json::parse(events(out)[0]).contains("usage"));
}

TEST(OpenAiResponse, CompletionChunksHaveNoRole) {
  AnswerWriter w = writer(ApiKind::kCompletion);
  std::string out;
  w.append_start(out, 0);
  EXPECT_EQ(out, "");
  w.append_text(out, 0, "x", {});
  w.append_finish(out, 0, FinishReason::kStop);
  const auto list = events(out);
  EXPECT_EQ(json::parse(list[0])["object"], "text_completion");
  EXPECT_EQ(json::parse(list[0])["choices"][0]["text"], "x");
  EXPECT_EQ(json::parse(list[1])["choices"][0],
            json({{"index", 0}, {"text", ""}, {"logprobs", nullptr}, {"finish_reason", "stop"}}));
}

TEST(OpenAiResponse, ChatLogprobsCarryBytes) {
  AnswerWriter w = writer(ApiKind::kChat, true);
  std::string out;
  const GeneratedToken tokens[] = {
      token('a', -0.5f, {{byte_id('a'), -0.5f}, {byte_id(0xe2), -1.5f}})};
  w.append_text(out, 0, "", tokens);
  const json one = json::parse(events(out)[0])["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(one["token"], "a");
  EXPECT_EQ(one["logprob"], -0.5);
  EXPECT_EQ(one["bytes"], json({97}));
  EXPECT_EQ(one["top_logprobs"][1]["token"], "bytes:\\xe2");
  EXPECT_EQ(one["top_logprobs"][1]["bytes"], json({0xe2}));
}

TEST(OpenAiResponse, CompletionLogprobsCountCodePoints) {
  AnswerWriter w = writer(ApiKind::kCompletion, true);
  const AnswerChoice choice = {
      "\u00e9b",
      {token(0xc3, -1), token(0xa9, -2), token('b', -3, {{byte_id('c'), -0.25f}})},
      FinishReason::kStop};
  const json out = json::parse(w.whole({&choice, 1}, {}))["choices"][0];
  EXPECT_EQ(out["text"], "\u00e9b");
  EXPECT_EQ(out["logprobs"]["tokens"], json({"bytes:\\xc3", "bytes:\\xa9", "b"}));
  EXPECT_EQ(out["logprobs"]["token_logprobs"], json({-1, -2, -3}));
  EXPECT_EQ(out["logprobs"]["text_offset"], json({0, 1, 1}));
  EXPECT_EQ(out["logprobs"]["top_logprobs"][0], nullptr);
  EXPECT_EQ(out["logprobs"]["top_logprobs"][2], json({{"c", -0.25}, {"b", -3.0}}));
}

TEST(OpenAiResponse, WholeChatAnswer) {
  const AnswerChoice choices[] = {{"one", {}, FinishReason::kStop},
                                  {"two", {}, FinishReason::kLength}};
  AnswerWriter w = writer(ApiKind::kChat);
  const json out = json::parse(w.whole(choices, {}));
  EXPECT_EQ(out["object"], "chat.completion");
  EXPECT_EQ(out["choices"][1]["index"], 1);
  EXPECT_EQ(out["choices"][1]["message"],
            json({{"role", "assistant"}, {"content", "two"}, {"refusal", nullptr}}));
  EXPECT_EQ(out["choices"][1]["logprobs"], nullptr);
}

TEST(ApiError, IsTheObjectThatClientsKnow) {
  const auto error = refuse("top_p", "{} is bad", "\"x\"");
  EXPECT_EQ(error_json(error.value()),
            R"({"error":{"message":"top_p: \"x\" is bad","type":"invalid_request_error",)"
            R"("param":"top_p","code":null}})");
  std::string out;
  append_sse_error(out, api_error({ErrorCode::kDevice, "gone"}));
  EXPECT_EQ(out,
            "data: {\"error\":{\"message\":\"gone\",\"type\":\"server_error\",\"param\":null,"
            "\"code\":\"internal_error\"}}\n\n");
}

TEST(ApiError, StatusesOfOurErrors) {
  EXPECT_EQ(api_error({ErrorCode::kOutOfRange, "m"}).status, 400);
  EXPECT_EQ(api_error({ErrorCode::kOutOfRange, "m"}).code, "");  // of an id, too
  EXPECT_EQ(api_error({ErrorCode::kUnavailable, "m"}).status, 429);
  EXPECT_GT(api_error({ErrorCode::kUnavailable, "m"}).retry_after_seconds, 0);
  EXPECT_EQ(api_error({ErrorCode::kResourceExhausted, "m"}).status, 400);
  EXPECT_EQ(api_error({ErrorCode::kInternal, "m"}).status, 500);
}

}  // namespace
}  // namespace ashlar
