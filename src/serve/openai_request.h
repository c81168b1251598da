// What a client of /v1/completions and /v1/chat/completions asks for, parsed from bytes.
//
// Whatever is accepted is honoured: a field either lands in the struct, or has a value that cannot
// change the result, or is refused by name. No template is rendered and nothing is encoded here
// (serve/prompt.h); nothing here knows of HTTP, so a body can be judged without a connection. The
// two functions take any bytes.
#ifndef ASHLAR_SERVE_OPENAI_REQUEST_H_
#define ASHLAR_SERVE_OPENAI_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sampling/params.h"
#include "serve/api_error.h"

namespace ashlar {

inline constexpr int64_t kMaxStops = 16;
inline constexpr int64_t kDefaultCompletionTokens =
    16;  // what /v1/completions gives elsewhere, too

enum class ApiKind : uint8_t { kCompletion, kChat };

// One prompt of a completion: text, or token ids.
struct PromptInput {
  std::string text;
  std::vector<int32_t> ids;
  bool is_text = true;
};

struct ApiRequest {
  ApiKind kind = ApiKind::kCompletion;
  std::string model;

  std::vector<PromptInput> prompts;  // completions: at least one
  bool echo = false;                 // completions: answers start with the prompt's text

  std::string messages_json;    // chat: array of {"role", "content"}, contents as one text
  std::string template_kwargs;  // chat: JSON object, or empty
  bool add_generation_prompt = true;

  int64_t n = 1;
  std::optional<int64_t> max_tokens;  // absent: until the context is full
  int64_t min_tokens = 0;
  bool ignore_eos = false;
  std::vector<int32_t> stop_token_ids;
  std::vector<std::string> stop;
  SamplingParams sampling;

  bool stream = false;
  bool include_usage = false;
};

// defaults: the values of sampling fields that the client does not send.
ApiResult<ApiRequest> parse_completion(std::string_view body, const SamplingParams& defaults = {});
ApiResult<ApiRequest> parse_chat(std::string_view body, const SamplingParams& defaults = {});

}  // namespace ashlar

#endif  // ASHLAR_SERVE_OPENAI_REQUEST_H_
