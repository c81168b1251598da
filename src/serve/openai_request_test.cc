// Every field of both endpoints: what it becomes, or how it is refused. A field that is accepted
// and then ignored is the failure that these tables look for.
#include "serve/openai_request.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ashlar {
namespace {

using nlohmann::json;

std::string chat_body(const std::string& more) {
  return R"({"model":"m","messages":[{"role":"user","content":"hi"}])" +
         (more.empty() ? "" : "," + more) + "}";
}
std::string completion_body(const std::string& more) {
  return R"({"model":"m","prompt":"hi")" + (more.empty() ? "" : "," + more) + "}";
}

// Everything a request can hold, as text, so that "it landed in the struct" can be compared.
std::string dump(const ApiRequest& r) {
  json out = {{"model", r.model},
              {"echo", r.echo},
              {"messages", r.messages_json},
              {"kwargs", r.template_kwargs},
              {"generate", r.add_generation_prompt},
              {"n", r.n},
              {"max", r.max_tokens.value_or(-1)},
              {"min", r.min_tokens},
              {"ignore_eos", r.ignore_eos},
              {"stop_ids", r.stop_token_ids},
              {"stop", r.stop},
              {"stream", r.stream},
              {"usage", r.include_usage}};
  for (const PromptInput& p : r.prompts) out["prompts"].push_back({p.text, p.ids});
  SamplingParams sampling = r.sampling;
  out["sampling"] = options_json(sampling.fields());
  for (const TokenBias& b : r.sampling.logit_bias) out["bias"].push_back({b.token, b.bias});
  return out.dump();
}

// Fields that must change the parsed request.
constexpr const char* kHonouredByBoth[] = {
    R"("max_tokens":7)",
    R"("min_tokens":2)",
    R"("n":3)",
    R"("temperature":0.25)",
    R"("temperature":0)",
    R"("top_p":0.5)",
    R"("top_k":5)",
    R"("min_p":0.1)",
    R"("seed":-4)",
    R"("stop":"x")",
    R"("stop":["x","y"])",
    R"("stop_token_ids":[5])",
    R"("ignore_eos":true)",
    R"("presence_penalty":1)",
    R"("frequency_penalty":-1.5)",
    R"("repetition_penalty":2)",
    R"("logit_bias":{"5":-100})",
    R"("stream":true)",
    R"("stream":true,"stream_options":{"include_usage":true})",
};
constexpr const char* kHonouredByChat[] = {
    R"("max_completion_tokens":9)",        R"("logprobs":true)",
    R"("logprobs":true,"top_logprobs":4)", R"("chat_template_kwargs":{"think":true})",
    R"("add_generation_prompt":false)",
};
constexpr const char* kHonouredByCompletions[] = {R"("echo":true)", R"("logprobs":2)"};

TEST(OpenAiRequest, EveryFieldChangesTheRequest) {
  std::set<std::string> seen;
  const auto add = [&seen](const ApiResult<ApiRequest>& request, const std::string& fields) {
    ASSERT_TRUE(request) << fields << ": " << request.error().message;
    EXPECT_TRUE(seen.insert(dump(*request)).second) << fields << " changed nothing";
  };
  add(parse_chat(chat_body("")), "plain chat");
  for (const char* fields : kHonouredByBoth) add(parse_chat(chat_body(fields)), fields);
  for (const char* fields : kHonouredByChat) add(parse_chat(chat_body(fields)), fields);
  add(parse_completion(completion_body("")), "plain completion");
  for (const char* fields : kHonouredByBoth) add(parse_completion(completion_body(fields)), fields);
  for (const char* fields : kHonouredByCompletions) {
    add(parse_completion(completion_body(fields)), fields);
  }
}

TEST(OpenAiRequest, NeutralFieldsChangeNothing) {
  const std::string plain = dump(*parse_chat(chat_body("")));
  for (const char* fields :
       {R"("user":"u")", R"("metadata":{"a":"b"})", R"("store":false)", R"("service_tier":"auto")",
        R"("response_format":{"type":"text"})", R"("tools":[])", R"("tool_choice":"none")",
        R"("parallel_tool_calls":true)", R"("modalities":["text"])", R"("seed":null)",
        R"("tools":null,"logit_bias":null,"stop":null,"temperature":null)", R"("top_k":-1)",
        R"("whatever":null)", R"("logprobs":false)", R"("stream":false)",
        R"("prediction":null,"reasoning_effort":null,"web_search_options":null)"}) {
    const auto request = parse_chat(chat_body(fields));
    ASSERT_TRUE(request) << fields << ": " << request.error().message;
    EXPECT_EQ(dump(*request), plain) << fields;
  }
  const std::string text = dump(*parse_completion(completion_body("")));
  for (const char* fields : {R"("best_of":1)", R"("suffix":"")", R"("echo":false)"}) {
    const auto request = parse_completion(completion_body(fields));
    ASSERT_TRUE(request) << fields << ": " << request.error().message;
    EXPECT_EQ(dump(*request), text) << fields;
  }
}

struct Refusal {
  const char* fields;
  const char* param;
  const char* message;
};

TEST(OpenAiRequest, RefusesTheRestByName) {
  const Refusal cases[] = {
      {R"("temperatur":1)", "temperatur", "not supported"},
      {R"("response_format":{"type":"json_object"})", "response_format", "only"},
      {R"("store":true)", "store", "only false"},
      {R"("reasoning_effort":"high")", "reasoning_effort", "not supported"},
      {R"("guided_json":{})", "guided_json", "not supported"},
      {R"("temperature":101)", "temperature", "out of range"},
      {R"("temperature":"1")", "temperature", "expected a number, got a string"},
      {R"("temperature":true)", "temperature", "expected a number"},
      {R"("top_p":-0.1)", "top_p", "out of range"},
      {R"("n":0)", "n", "0 is out of range, 1 to 128"},
      {R"("n":1.5)", "n", "1.5 is not a whole number"},
      {R"("max_tokens":0)", "max_tokens", "out of range"},
      {R"("max_tokens":-1)", "max_tokens", "out of range"},
      {R"("max_tokens":5,"min_tokens":6)", "min_tokens", "more than max_tokens"},
      {R"("seed":18446744073709551615)", "seed", "out of range"},
      {R"("stop":[""])", "stop", "empty"},
      {R"("stop":[1])", "stop", "expected a string"},
      {R"("stop":["a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"])", "stop",
       "at most 16"},
      {R"("stop_token_ids":["5"])", "stop_token_ids", "expected a whole number"},
      {R"("stop_token_ids":[-5])", "stop_token_ids", "out of range"},
      {R"("logit_bias":{"x":1})", "logit_bias", "not a token id"},
      {R"("logit_bias":{"5":"1"})", "logit_bias", "not a number"},
      {R"("logit_bias":{"5":1001})", "logit_bias", "out of range"},
      {R"("logit_bias":{"7":1,"07":2})", "logit_bias", "twice"},
      {R"("logit_bias":[5])", "logit_bias", "an array"},
      {R"("stream_options":{"include_usage":true})", "stream_options", "stream: true"},
      {R"("stream":true,"stream_options":{"speed":1})", "stream_options.speed", "not supported"},
      {R"("stream":"yes")", "stream", "expected true or false"},
      {R"("model":"n","n":1)", "", "occurs twice"},
  };
  for (const Refusal& c : cases) {
    for (const auto& request :
         {parse_chat(chat_body(c.fields)), parse_completion(completion_body(c.fields))}) {
      ASSERT_FALSE(request) << c.fields;
      EXPECT_EQ(request.error().status, 400);
      if (request.error().param == c.param) {
        EXPECT_NE(request.error().message.find(c.message), std::string::npos)
            << c.fields << ": " << request.error().message;
      } else {
        EXPECT_NE(request.error().message.find("not supported"), std::string::npos)
            << c.fields << ": " << request.error().param << ": " << request.error().message;
      }
    }
  }
}

TEST(OpenAiRequest, RefusesWhatOneEndpointLacks) {
  const Refusal chat[] = {
      {R"("tools":[{"type":"function"}])", "tools", "only [] is supported"},
      {R"("tool_choice":"required")", "tool_choice", "\"none\" or \"auto\""},
      {R"("prompt":"x")", "prompt", "not supported"},
      {R"("top_logprobs":2)", "top_logprobs", "logprobs: true"},
      {R"("logprobs":true,"top_logprobs":101)", "top_logprobs", "out of range"},
      {R"("logprobs":3)", "logprobs", "true or false"},
      {R"("max_tokens":3,"max_completion_tokens":4)", "max_completion_tokens", "contradicts"},
      {R"("chat_template_kwargs":{"messages":[]})", "chat_template_kwargs", "set by the server"},
      {R"("chat_template_kwargs":[])", "chat_template_kwargs", "expected an object"},
  };
  for (const Refusal& c : chat) {
    const auto request = parse_chat(chat_body(c.fields));
    ASSERT_FALSE(request) << c.fields;
    EXPECT_EQ(request.error().param, c.param);
    EXPECT_NE(request.error().message.find(c.message), std::string::npos)
        << request.error().message;
  }
  const Refusal completion[] = {
      {R"("messages":[])", "messages", "not supported"},
      {R"("suffix":"x")", "suffix", "only"},
      {R"("best_of":2)", "best_of", "only"},
      {R"("logprobs":true)", "logprobs", "whole number"},
      {R"("echo":true,"logprobs":1)", "echo", "logprobs"},
      {R"("max_completion_tokens":4)", "max_completion_tokens", "not supported"},
  };
  for (const Refusal& c : completion) {
    const auto request = parse_completion(completion_body(c.fields));
    ASSERT_FALSE(request) << c.fields;
    EXPECT_EQ(request.error().param, c.param);
    EXPECT_NE(request.error().message.find(c.message), std::string::npos)
        << request.error().message;
  }
}

TEST(OpenAiRequest, ReadsEveryFormOfPrompt) {
  const auto prompts = [](const std::string& prompt) {
    return parse_completion(R"({"model":"m","prompt":)" + prompt + "}");
  };
  EXPECT_EQ(prompts(R"("a")")->prompts.at(0).text, "a");
  EXPECT_EQ(prompts(R"(["a","b"])")->prompts.at(1).text, "b");
  EXPECT_EQ(prompts("[1,2]")->prompts.at(0).ids, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(prompts("[[1],[2,3]]")->prompts.at(1).ids, (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(prompts("[[1],[2,3]]")->prompts.size(), 2u);
  for (const char* bad : {"[]", "[[]]", "1", "{}", "[1,\"a\"]", "[\"a\",1]", "[[1],2]", "[1.5]",
                          "[-1]", "[2147483648]", "[[[1]]]", "[null]", "null", "[true]"}) {
    const auto request = prompts(bad);
    ASSERT_FALSE(request) << bad;
    EXPECT_EQ(request.error().param, "prompt") << bad;
  }
}

TEST(OpenAiRequest, ReadsMessages) {
  const auto messages = [](const std::string& list) {
    return parse_chat(R"({"model":"m","messages":)" + list + "}");
  };
  EXPECT_EQ(messages(R"([{"role":"user","content":"hi"}])")->messages_json,
            R"([{"content":"hi","role":"user"}])");
  const char* parts =
      R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])";
  EXPECT_EQ(messages(parts)->messages_json, R"([{"content":"a\nb","role":"user"}])");
  EXPECT_TRUE(messages(R"([{"role":"assistant","content":"","refusal":null,"tool_calls":[]}])"));
  const Refusal cases[] = {
      {"[]", "messages", "at least one"},
      {"{}", "messages", "required"},
      {"[1]", "messages[0]", "expected an object"},
      {R"([{"content":"x"}])", "messages[0].role", "expected system"},
      {R"([{"role":"king","content":"x"}])", "messages[0].role", "expected system"},
      {R"([{"role":"user"}])", "messages[0].content", "required"},
      {R"([{"role":"user","content":7}])", "messages[0].content", "a number"},
      {R"([{"role":"user","content":"x","name":"n"}])", "messages[0].name", "not supported"},
      {R"([{"role":"assistant","content":"x","tool_calls":[{}]}])", "messages[0].tool_calls",
       "only"},
      {R"([{"role":"user","content":[{"type":"image_url"}]}])", "messages[0].content[0].type",
       "only \"text\""},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text",
       "required"},
  };
  for (const Refusal& c : cases) {
    const auto request = messages(c.fields);
    ASSERT_FALSE(request) << c.fields;
    EXPECT_EQ(request.error().param, c.param);
    EXPECT_NE(request.error().message.find(c.message), std::string::npos)
        << request.error().message;
  }
}

TEST(OpenAiRequest, RefusesWhatIsNoObject) {
  const Refusal cases[] = {
      {"", "", "empty"},
      {"[]", "", "not a JSON object"},
      {"{\"model\":\"m\",}", "", "line 1, column 14"},
      {"{\"model\":\n\"m\" 5}", "", "line 2"},
      {"{\"model\":\"\xff\"}", "", "UTF-8"},
      {"{\"model\":\"m\",\"model\":\"m\"}", "", "occurs twice"},
      {"{}", "model", "required"},
      {"{\"model\":5}", "model", "expected a string"},
      {"{\"model\":1e999}", "", "body"},
  };
  for (const Refusal& c : cases) {
    const auto request = parse_chat(c.fields);
    ASSERT_FALSE(request) << c.fields;
    EXPECT_EQ(request.error().status, 400);
    EXPECT_EQ(request.error().param, c.param) << c.fields;
    EXPECT_NE(request.error().message.find(c.message), std::string::npos)
        << request.error().message;
    EXPECT_EQ(request.error().message.find("json.exception"), std::string::npos);
  }
  const auto deep = parse_chat(std::string(100000, '['));
  EXPECT_NE(deep.error().message.find("nested deeper"), std::string::npos);
}

TEST(OpenAiRequest, TakesDefaultsFromTheServer) {
  SamplingParams defaults;
  defaults.temperature = 0.25;
  defaults.top_p = 0.5;
  const auto request = parse_chat(chat_body(R"("top_p":1)"), defaults);
  EXPECT_EQ(request->sampling.temperature, 0.25);
  EXPECT_EQ(request->sampling.top_p, 1.0);
  EXPECT_FALSE(request->max_tokens);
  EXPECT_EQ(parse_completion(completion_body(""))->max_tokens, kDefaultCompletionTokens);
}

}  // namespace
}  // namespace ashlar
