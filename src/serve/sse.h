// Server-sent events as the OpenAI API uses them: one "data:" line an event, a blank line after it.
// Data is JSON on one line, so that no line of it needs a prefix of its own.
#ifndef ASHLAR_SERVE_SSE_H_
#define ASHLAR_SERVE_SSE_H_

#include <string>
#include <string_view>

#include "serve/api_error.h"

namespace ashlar {

inline constexpr std::string_view kSseContentType = "text/event-stream; charset=utf-8";

// json: without line breaks, as every writer of this folder makes it.
void append_sse(std::string& out, std::string_view json);
// The end of a stream that went well.
void append_sse_done(std::string& out);
// What went wrong after the first bytes of an answer: the stream ends behind it, without [DONE].
void append_sse_error(std::string& out, const ApiError& error);

}  // namespace ashlar

#endif  // ASHLAR_SERVE_SSE_H_
