// From the bytes of a request to token ids: parse, check the model's name, render the chat
// template, encode. Everything that takes time before the engine sees a request, in one call for a
// worker thread; no socket, no engine.
#ifndef ASHLAR_SERVE_PROMPT_H_
#define ASHLAR_SERVE_PROMPT_H_

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "serve/openai_request.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ashlar {

// The model that a server answers for. What it points to must outlive the server.
struct ServedModel {
  std::vector<std::string> names;  // that requests may use; the first is the one it goes by
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat_template = nullptr;  // null: completions only
  SamplingParams defaults;                      // of fields that a request does not send
};

struct PromptLimits {
  int64_t max_bytes = 0;    // of a text that is encoded
  int64_t max_prompts = 0;  // times n: answers that one request may ask for
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

struct PreparedRequest {
  ApiRequest request;
  std::vector<std::vector<int32_t>> prompts;  // token ids
  std::vector<std::string> echoes;            // a prompt; empty unless echo was asked for
};

// Any thread, any bytes.
ApiResult<PreparedRequest> prepare_request(ApiKind kind, std::string_view body,
                                           const ServedModel& model, const PromptLimits& limits);

// The refusal of a name that no one serves.
ApiError unknown_model(std::string_view name, const ServedModel& model);

}  // namespace ashlar

#endif  // ASHLAR_SERVE_PROMPT_H_
