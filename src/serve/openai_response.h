// What goes back to a client: the object of a whole answer and the chunks of a streamed one.
//
// Plain text building from events; no socket and no thread. One AnswerWriter belongs to one HTTP
// request; all its chunks carry the same id. Key order and null fields follow the API's own
// answers, since some clients read them strictly: the role comes once and first, "usage" appears in
// chunks only when it was asked for.
#ifndef ASHLAR_SERVE_OPENAI_RESPONSE_H_
#define ASHLAR_SERVE_OPENAI_RESPONSE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "serve/openai_request.h"
#include "text/tokenizer.h"

namespace ashlar {

struct AnswerIdentity {
  ApiKind kind = ApiKind::kCompletion;
  std::string id;  // "chatcmpl-..." or "cmpl-..."
  int64_t created = 0;
  std::string model;
  std::string fingerprint;
};

// A choice as it has come so far.
struct AnswerChoice {
  std::string text;
  std::vector<GeneratedToken> tokens;
  FinishReason finish = FinishReason::kNone;
};

class AnswerWriter {
 public:
  // logprobs: whether tokens are reported. usage_in_chunks: stream_options.include_usage.
  AnswerWriter(AnswerIdentity identity, const Tokenizer& tokenizer, int64_t choices, bool logprobs,
               bool usage_in_chunks);

  // Chunks, appended as events.
  void append_start(std::string& out, int64_t choice) const;  // chat: the role
  void append_text(std::string& out, int64_t choice, std::string_view text,
                   std::span<const GeneratedToken> tokens);
  void append_finish(std::string& out, int64_t choice, FinishReason finish) const;
  void append_usage(std::string& out, const Usage& usage) const;

  // The whole answer as one object.
  std::string whole(std::span<const AnswerChoice> choices, const Usage& usage);

 private:
  void append_chunk(std::string& out, int64_t choice, std::string_view delta,
                    std::string_view logprobs, std::string_view finish) const;
  std::string logprobs_json(int64_t choice, std::span<const GeneratedToken> tokens);
  std::string chat_logprobs(std::span<const GeneratedToken> tokens) const;
  std::string completion_logprobs(int64_t choice, std::span<const GeneratedToken> tokens);
  void append_chat_token(std::string& out, int32_t token, float logprob) const;
  std::string token_name(int32_t token) const;

  AnswerIdentity identity_;
  Tokenizer tokenizer_;
  bool logprobs_;
  bool usage_in_chunks_;
  std::string head_;                   // of every chunk, up to "choices":
  std::vector<int64_t> text_offsets_;  // a choice: code points of its tokens so far
};

// {"prompt_tokens":...}
std::string usage_json(const Usage& usage);

}  // namespace ashlar

#endif  // ASHLAR_SERVE_OPENAI_RESPONSE_H_
