// Request: what a caller wishes for, and RequestEvent: what it gets back, piece by piece.
//
// A request has one or more choices; each choice becomes a Sequence of its own (engine/sequence.h)
// and reports its own events. Events of one choice come in order; the last one carries a finish
// reason and nothing follows it.
#ifndef ASHLAR_ENGINE_REQUEST_H_
#define ASHLAR_ENGINE_REQUEST_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "sampling/constraint.h"
#include "sampling/generated_token.h"
#include "sampling/params.h"

namespace ashlar {

using RequestId = int64_t;

enum class FinishReason : uint8_t { kNone, kStop, kLength, kCancelled, kError };
std::string_view finish_reason_name(FinishReason reason);  // "stop"

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, taken from shared pages instead of being computed
  int64_t output_tokens = 0;  // the end-of-generation token included
};

struct RequestEvent {
  RequestId request = 0;
  int64_t choice = 0;
  // The tokens since the last event. A token that ends generation (end of turn, stop token) is
  // among them, its text is not in `text`.
  std::vector<GeneratedToken> tokens;
  // Printable since the last event: whole code points, never part of a stop string. Empty without a
  // tokenizer.
  std::string text;
  FinishReason finish = FinishReason::kNone;
  std::string stop_text;  // with kStop: the stop string that matched, if one did
  Error error;            // with kError
  Usage usage;            // up to this event
  int64_t seed = 0;       // the request's own, or the random one it got
};

struct Request {
  std::vector<int32_t> prompt;  // token ids, at least one
  SamplingParams sampling;
  int64_t choices = 1;               // n: independent answers that share the prompt's pages
  int64_t max_tokens = 0;            // output tokens a choice; 0: until the context is full
  int64_t min_tokens = 0;            // no end-of-generation token and no stop token before
  bool ignore_eos = false;           // the model's end-of-generation tokens do not end the answer
  std::vector<int32_t> stop_tokens;  // end the answer, beside the model's own
  std::vector<std::string> stop;     // end the answer; not part of its text
  ConstraintFactory constraint;      // empty: none
  // Called on the thread that runs the engine; must not call into the engine, except cancel().
  std::function<void(const RequestEvent&)> on_event;
};

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_REQUEST_H_
