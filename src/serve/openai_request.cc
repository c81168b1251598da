// The fields of both endpoints, in the order of the documents, and the table of fields that are
// accepted with neutral values only. Chat messages are read in chat_messages.cc.
#include "serve/openai_request.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/json_text.h"
#include "serve/chat_messages.h"
#include "serve/request_fields.h"

namespace ashlar {

using nlohmann::json;

namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 40;
constexpr int64_t kMaxChoices = 128;

// Accepted as long as they change nothing, so that clients which always send them work.
constexpr NeutralField kNeutral[] = {
    {"user", "*"},
    {"metadata", "*"},
    {"safety_identifier", "*"},
    {"prompt_cache_key", "*"},
    {"store", "[false]"},
    {"service_tier", R"(["auto", "default"])"},
    {"length_penalty", "[1]"},
    {"use_beam_search", "[false]"},
    {"skip_special_tokens", "[true]"},
    {"spaces_between_special_tokens", "[true]"},
    {"include_stop_str_in_output", "[false]"},
    {"response_format", R"([{"type": "text"}])"},
    {"priority", "[0]"},
};
constexpr NeutralField kNeutralCompletion[] = {
    {"suffix", R"([""])"},
};
constexpr NeutralField kNeutralChat[] = {
    {"tools", "[[]]"},
    {"tool_choice", R"(["none", "auto"])"},
    {"parallel_tool_calls", "[true, false]"},
    {"functions", "[[]]"},
    {"function_call", R"(["none", "auto"])"},
    {"modalities", R"([["text"]])"},
    {"verbosity", R"(["medium"])"},
    {"echo", "[false]"},
    {"continue_final_message", "[false]"},
    {"documents", "[[]]"},
};
constexpr NeutralField kNeutralStreamOptions[] = {
    {"include_obfuscation", "[false]"},
    {"continuous_usage_stats", "[false]"},
};

// "line 1, column 20": where a number stands that no double holds; the parser tells only what it
// is.
std::string number_place(std::string_view body, std::string_view number) {
  constexpr std::string_view kOfNumbers = "+-.0123456789eE";
  int64_t line = 1;
  size_t line_start = 0;
  bool in_string = false;
  for (size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (c == '\n') {
      ++line;
      line_start = i + 1;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (in_string) {
      if (c == '\\') ++i;
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      const size_t end = std::min(body.find_first_not_of(kOfNumbers, i), body.size());
      if (body.substr(i, end - i) == number) {
        return fmt::format("line {}, column {}", line, i - line_start + 1);
      }
      i = end - 1;
    }
  }
  return "an unknown place";
}

ApiResult<json> parse_body(std::string_view body) {
  if (body.empty()) return api_fail(400, "", "the body is empty; a JSON object is expected");
  Result<json> value = parse_json_object(body, "body");
  if (value) return std::move(*value);
  std::string message = value.error().message;
  constexpr std::string_view kOverflow = "number overflow parsing '";
  if (const size_t at = message.find(kOverflow); at != std::string::npos) {
    std::string number = message.substr(at + kOverflow.size());
    number.resize(std::min(number.find('\''), number.size()));
    return api_fail(400, "invalid_json",
                    fmt::format("body: not valid JSON: at {}: the number {} is out of range",
                                number_place(body, number), number));
  }
  // "[json.exception.parse_error.101] " tells a client nothing.
  const size_t tag = message.find("[json.exception.");
  const size_t end = tag == std::string::npos ? tag : message.find("] ", tag);
  if (end != std::string::npos) message.erase(tag, end + 2 - tag);
  return api_fail(400, "invalid_json", std::move(message));
}

ApiStatus read_sampling(RequestFields& fields, SamplingParams& sampling) {
  OptionFields options = sampling.fields();
  for (const OptionField& option : options.list()) {
    if (option.name == "logprobs") continue;  // each endpoint spells it in its own way
    if (option.name == "top_k") {             // -1 is how others write "off"
      const json* value = fields.take("top_k");
      if (value != nullptr && *value == -1) {
        sampling.top_k = 0;
        continue;
      }
    }
    ASHLAR_API_TRY(fields.read(option));
  }
  const json* bias = fields.take("logit_bias");
  if (bias == nullptr) return {};
  if (!bias->is_object()) {
    return refuse("logit_bias", "expected an object of token ids and biases, got {}",
                  json_kind(*bias));
  }
  std::set<int32_t> seen;
  for (const auto& [key, value] : bias->items()) {
    TokenBias entry;
    const char* end = key.data() + key.size();
    const auto [parsed, error] = std::from_chars(key.data(), end, entry.token);
    if (error != std::errc() || parsed != end || entry.token < 0) {
      return refuse("logit_bias", "a key is not a token id");
    }
    if (!value.is_number()) {
      return refuse("logit_bias", "the bias of token {} is not a number", entry.token);
    }
    if (!(std::abs(value.get<double>()) <= 1000)) {
      return refuse("logit_bias", "{} for token {} is out of range, -1000 to 1000", value.dump(),
                    entry.token);
    }
    entry.bias = value.get<float>();
    if (!seen.insert(entry.token).second) {  // "7" and "07"
      return refuse("logit_bias", "token {} occurs twice", entry.token);
    }
    sampling.logit_bias.push_back(entry);
  }
  return {};
}

ApiResult<std::vector<int32_t>> token_ids(const json& list, std::string_view path) {
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const json& value : list) {
    ASHLAR_API_ASSIGN(const int64_t id, whole_number(value, path, 0, (int64_t{1} << 31) - 1));
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

ApiStatus read_stops(RequestFields& fields, ApiRequest& request) {
  if (const json* stop = fields.take("stop")) {
    const json list = stop->is_array() ? *stop : json::array({*stop});
    if (std::ssize(list) > kMaxStops) {
      return refuse("stop", "{} texts are too many; at most {}", list.size(), kMaxStops);
    }
    for (const json& text : list) {
      if (!text.is_string()) {
        return refuse("stop", "expected a string or an array of strings, got {}", json_kind(text));
      }
      request.stop.push_back(text.get<std::string>());
      if (request.stop.back().empty()) return refuse("stop", "an empty text would stop at once");
    }
  }
  if (const json* ids = fields.take("stop_token_ids")) {
    if (!ids->is_array()) {
      return refuse("stop_token_ids", "expected an array of token ids, got {}", json_kind(*ids));
    }
    if (ids->size() > 1024) return refuse("stop_token_ids", "more than 1024 are too many");
    ASHLAR_API_ASSIGN(request.stop_token_ids, token_ids(*ids, "stop_token_ids"));
  }
  return {};
}

ApiStatus read_stream(RequestFields& fields, ApiRequest& request) {
  ASHLAR_API_TRY(fields.read("stream", request.stream));
  const json* options = fields.take("stream_options");
  if (options == nullptr) return {};
  if (!options->is_object()) {
    return refuse("stream_options", "expected an object, got {}", json_kind(*options));
  }
  if (!request.stream) return refuse("stream_options", "only allowed together with stream: true");
  RequestFields inner(*options, "stream_options.");
  ASHLAR_API_TRY(inner.read("include_usage", request.include_usage));
  return inner.finish(kNeutralStreamOptions);
}

// What both endpoints have.
ApiStatus read_common(RequestFields& fields, ApiRequest& request) {
  ASHLAR_API_TRY(fields.read("model", request.model));
  if (request.model.empty()) return refuse("model", "the name of the model is required");
  ASHLAR_API_TRY(fields.read("n", request.n, 1, kMaxChoices));
  ASHLAR_API_TRY(fields.read("max_tokens", request.max_tokens, 1, kMaxTokens));
  ASHLAR_API_TRY(fields.read("min_tokens", request.min_tokens, 0, kMaxTokens));
  ASHLAR_API_TRY(fields.read("ignore_eos", request.ignore_eos));
  ASHLAR_API_TRY(read_sampling(fields, request.sampling));
  ASHLAR_API_TRY(read_stops(fields, request));
  return read_stream(fields, request);
}

ApiStatus check_lengths(const ApiRequest& request) {
  if (request.max_tokens && request.min_tokens > *request.max_tokens) {
    return refuse("min_tokens", "{} is more than max_tokens, {}", request.min_tokens,
                  *request.max_tokens);
  }
  return {};
}

PromptInput text_prompt(const json& value) {
  PromptInput prompt;
  prompt.text = value.get<std::string>();
  return prompt;
}

ApiResult<PromptInput> id_prompt(const json& list) {
  PromptInput prompt;
  prompt.is_text = false;
  ASHLAR_API_ASSIGN(prompt.ids, token_ids(list, "prompt"));
  if (prompt.ids.empty()) return refuse("prompt", "a list of token ids is empty");
  return prompt;
}

// A text, texts, ids, or lists of ids.
ApiStatus read_prompts(RequestFields& fields, ApiRequest& request) {
  const json* value = fields.take("prompt");
  if (value == nullptr) return refuse("prompt", "required: a text, texts, ids or lists of ids");
  if (value->is_string()) {
    request.prompts.push_back(text_prompt(*value));
    return {};
  }
  if (!value->is_array() || value->empty()) {
    return refuse("prompt", "expected a text, texts, ids or lists of ids, got {}",
                  value->is_array() ? "an empty array" : json_kind(*value));
  }
  const json& first = value->front();
  if (first.is_number()) {
    ASHLAR_API_ASSIGN(PromptInput prompt, id_prompt(*value));
    request.prompts.push_back(std::move(prompt));
    return {};
  }
  for (const json& one : *value) {
    if (one.type() != first.type() || (!one.is_string() && !one.is_array())) {
      return refuse("prompt", "an array holds texts only, ids only or lists of ids only; found {}",
                    json_kind(one));
    }
    if (one.is_string()) {
      request.prompts.push_back(text_prompt(one));
    } else {
      ASHLAR_API_ASSIGN(PromptInput prompt, id_prompt(one));
      request.prompts.push_back(std::move(prompt));
    }
  }
  return {};
}

std::vector<NeutralField> neutral_fields(std::span<const NeutralField> more) {
  std::vector<NeutralField> all(std::begin(kNeutral), std::end(kNeutral));
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

ApiResult<ApiRequest> parse_completion(std::string_view body, const SamplingParams& defaults) {
  ASHLAR_API_ASSIGN(const json object, parse_body(body));
  ApiRequest request;
  request.kind = ApiKind::kCompletion;
  request.sampling = defaults;
  request.max_tokens = kDefaultCompletionTokens;
  RequestFields fields(object);
  ASHLAR_API_TRY(read_common(fields, request));
  ASHLAR_API_TRY(read_prompts(fields, request));
  ASHLAR_API_TRY(fields.read("echo", request.echo));
  ASHLAR_API_TRY(fields.read("logprobs", request.sampling.logprobs, 0, kMaxTopLogprobs));
  if (request.echo && request.sampling.logprobs) {
    return refuse("echo",
                  "together with logprobs it would need those of the prompt, which are not "
                  "computed");
  }
  int64_t best_of = request.n;
  ASHLAR_API_TRY(fields.read("best_of", best_of, 1, kMaxChoices));
  if (best_of != request.n) return refuse("best_of", "only the value of n is supported here");
  ASHLAR_API_TRY(check_lengths(request));
  ASHLAR_API_TRY(fields.finish(neutral_fields(kNeutralCompletion)));
  return request;
}

ApiResult<ApiRequest> parse_chat(std::string_view body, const SamplingParams& defaults) {
  ASHLAR_API_ASSIGN(const json object, parse_body(body));
  ApiRequest request;
  request.kind = ApiKind::kChat;
  request.sampling = defaults;
  RequestFields fields(object);
  ASHLAR_API_TRY(read_common(fields, request));
  std::optional<int64_t> limit;
  ASHLAR_API_TRY(fields.read("max_completion_tokens", limit, 1, kMaxTokens));
  if (limit && request.max_tokens && *limit != *request.max_tokens) {
    return refuse("max_completion_tokens", "{} contradicts max_tokens, {}", *limit,
                  *request.max_tokens);
  }
  if (limit) request.max_tokens = limit;
  bool logprobs = false;
  std::optional<int64_t> top;
  ASHLAR_API_TRY(fields.read("logprobs", logprobs));
  ASHLAR_API_TRY(fields.read("top_logprobs", top, 0, kMaxTopLogprobs));
  if (top.value_or(0) > 0 && !logprobs) {
    return refuse("top_logprobs", "only allowed together with logprobs: true");
  }
  request.sampling.logprobs.reset();
  if (logprobs) request.sampling.logprobs = top.value_or(0);
  ASHLAR_API_TRY(read_messages(fields, request));
  ASHLAR_API_TRY(check_lengths(request));
  ASHLAR_API_TRY(fields.finish(neutral_fields(kNeutralChat)));
  return request;
}

}  // namespace ashlar
