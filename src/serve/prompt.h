// From the bytes of a request to token ids: parse, check the model's name, render the chat
// template, encode. Everything that takes time before the engine sees a request, in one call for a
// worker thread; no socket, no engine.
#ifndef ASHLAR_SERVE_PROMPT_H_
#define ASHLAR_SERVE_PROMPT_H_

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/openai_request.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ashlar {

// The model that a server answers for. It owns what it needs (copies of the two share one state),
// so that a worker which is still at it after a stop has nothing taken away.
struct ServedModel {
  std::vector<std::string> names;      // that requests may use; the first is the one it goes by
  std::optional<Tokenizer> tokenizer;  // always there in a server
  std::optional<ChatTemplate> chat_template;  // none: completions only
  SamplingParams defaults;                    // of fields that a request does not send
};

struct PromptLimits {
  int64_t max_bytes = 0;    // of a text that is encoded
  int64_t max_context = 0;  // in tokens; a text that cannot fit is refused before it is encoded
  int64_t token_bytes = 0;  // Tokenizer::most_text_bytes()
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
