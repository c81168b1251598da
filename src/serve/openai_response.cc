// The objects of both endpoints; they differ in the name of the object and in what a choice holds.
#include "serve/openai_response.h"

#include <algorithm>

#include "serve/json_append.h"
#include "serve/sse.h"
#include "text/utf8.h"

namespace ashlar {

namespace {

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

int64_t count_code_points(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; });
}

std::string head_of(const AnswerIdentity& identity, std::string_view object) {
  return fmt::format(R"({{"id":{},"object":"{}","created":{},"model":{},"system_fingerprint":{})",
                     quoted(identity.id), object, identity.created, quoted(identity.model),
                     quoted(identity.fingerprint));
}

// "stop" or "length"; what ended otherwise is reported as an error, not here.
std::string finish_json(FinishReason finish) {
  return finish == FinishReason::kNone ? "null" : quoted(finish_reason_name(finish));
}

}  // namespace

std::string usage_json(const Usage& usage) {
  return fmt::format(R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
                     R"("prompt_tokens_details":{{"cached_tokens":{}}}}})",
                     usage.prompt_tokens, usage.output_tokens,
                     usage.prompt_tokens + usage.output_tokens, usage.cached_tokens);
}

AnswerWriter::AnswerWriter(AnswerIdentity identity, const Tokenizer& tokenizer, int64_t choices,
                           bool logprobs, bool usage_in_chunks)
    : identity_(std::move(identity)),
      tokenizer_(tokenizer),
      logprobs_(logprobs),
      usage_in_chunks_(usage_in_chunks),
      text_offsets_(static_cast<size_t>(choices)) {
  head_ = head_of(identity_,
                  identity_.kind == ApiKind::kChat ? "chat.completion.chunk" : "text_completion");
}

void AnswerWriter::append_chunk(std::string& out, int64_t choice, std::string_view delta,
                                std::string_view logprobs, std::string_view finish) const {
  append_sse(
      out,
      fmt::format(R"({},"choices":[{{"index":{},{},"logprobs":{},"finish_reason":{}}}]{}}})", head_,
                  choice, delta, logprobs, finish, usage_in_chunks_ ? R"(,"usage":null)" : ""));
}

void AnswerWriter::append_start(std::string& out, int64_t choice) const {
  if (identity_.kind != ApiKind::kChat) return;
  append_chunk(out, choice, R"("delta":{"role":"assistant","content":""})", "null", "null");
}

void AnswerWriter::append_text(std::string& out, int64_t choice, std::string_view text,
                               std::span<const GeneratedToken> tokens) {
  if (text.empty() && (tokens.empty() || !logprobs_)) return;
  const char* format =
      identity_.kind == ApiKind::kChat ? R"("delta":{{"content":{}}})" : R"("text":{})";
  append_chunk(out, choice, fmt::format(fmt::runtime(format), quoted(text)),
               logprobs_json(choice, tokens), "null");
}

void AnswerWriter::append_finish(std::string& out, int64_t choice, FinishReason finish) const {
  append_chunk(out, choice, identity_.kind == ApiKind::kChat ? R"("delta":{})" : R"("text":"")",
               "null", finish_json(finish));
}

void AnswerWriter::append_usage(std::string& out, const Usage& usage) const {
  append_sse(out, fmt::format(R"({},"choices":[],"usage":{}}})", head_, usage_json(usage)));
}

std::string AnswerWriter::whole(std::span<const AnswerChoice> choices, const Usage& usage) {
  const bool chat = identity_.kind == ApiKind::kChat;
  std::string out = head_of(identity_, chat ? "chat.completion" : "text_completion");
  out += R"(,"choices":[)";
  for (size_t i = 0; i < choices.size(); ++i) {
    const AnswerChoice& choice = choices[i];
    if (i > 0) out += ',';
    out += fmt::format(R"({{"index":{},)", i);
    if (chat) {
      out += R"("message":{"role":"assistant","content":)";
      append_json_string(out, choice.text);
      out += R"(,"refusal":null})";
    } else {
      out += R"("text":)";
      append_json_string(out, choice.text);
    }
    out += fmt::format(R"(,"logprobs":{},"finish_reason":{}}})",
                       logprobs_json(static_cast<int64_t>(i), choice.tokens),
                       finish_json(choice.finish));
  }
  out += fmt::format(R"(],"usage":{}}})", usage_json(usage));
  return out;
}

std::string AnswerWriter::logprobs_json(int64_t choice, std::span<const GeneratedToken> tokens) {
  if (!logprobs_) return "null";
  return identity_.kind == ApiKind::kChat ? chat_logprobs(tokens)
                                          : completion_logprobs(choice, tokens);
}

// A token's text; bytes that are no whole code points are written out, so that no two tokens look
// alike.
std::string AnswerWriter::token_name(int32_t token) const {
  const std::string_view bytes = tokenizer_.token_bytes(token);
  if (is_valid_utf8(bytes)) return std::string(bytes);
  std::string name = "bytes:";
  for (const char c : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return name;
}

void AnswerWriter::append_chat_token(std::string& out, int32_t token, float logprob) const {
  out += R"({"token":)";
  append_json_string(out, token_name(token));
  out += R"(,"logprob":)";
  append_json_float(out, logprob);
  out += R"(,"bytes":[)";
  const std::string_view bytes = tokenizer_.token_bytes(token);
  for (size_t i = 0; i < bytes.size(); ++i) {
    out += fmt::format("{}{}", i > 0 ? "," : "", static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
}

std::string AnswerWriter::chat_logprobs(std::span<const GeneratedToken> tokens) const {
  std::string out = R"({"content":[)";
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append_chat_token(out, tokens[i].token, tokens[i].logprob);
    out += R"(,"top_logprobs":[)";
    for (size_t k = 0; k < tokens[i].top.size(); ++k) {
      if (k > 0) out += ',';
      append_chat_token(out, tokens[i].top[k].token, tokens[i].top[k].logprob);
      out += '}';
    }
    out += "]}";
  }
  out += R"(],"refusal":null})";
  return out;
}

std::string AnswerWriter::completion_logprobs(int64_t choice,
                                              std::span<const GeneratedToken> tokens) {
  std::string names, logprobs, tops, offsets;
  int64_t& offset = text_offsets_[static_cast<size_t>(choice)];
  for (const GeneratedToken& token : tokens) {
    const char* comma = names.empty() ? "" : ",";
    const std::string name = quoted(token_name(token.token));
    names += comma + name;
    logprobs += comma;
    append_json_float(logprobs, token.logprob);
    offsets += fmt::format("{}{}", comma, offset);
    offset += count_code_points(tokenizer_.token_bytes(token.token));
    // Names may coincide, JSON keys may not: the likeliest stays. The chosen one is always there.
    std::vector<std::pair<std::string, float>> entries;
    const auto add = [&entries](std::string key, float logprob) {
      const auto same = [&key](const auto& entry) { return entry.first == key; };
      if (std::ranges::none_of(entries, same)) entries.emplace_back(std::move(key), logprob);
    };
    for (const TokenLogprob& top : token.top) add(quoted(token_name(top.token)), top.logprob);
    if (!token.top.empty()) add(name, token.logprob);
    std::string top = token.top.empty() ? "null" : "{";
    for (const auto& [key, logprob] : entries) {
      if (top.size() > 1) top += ',';
      top += key + ":";
      append_json_float(top, logprob);
    }
    tops += comma + top + (token.top.empty() ? "" : "}");
  }
  return fmt::format(
      R"({{"tokens":[{}],"token_logprobs":[{}],"top_logprobs":[{}],"text_offset":[{}]}})", names,
      logprobs, tops, offsets);
}

}  // namespace ashlar
