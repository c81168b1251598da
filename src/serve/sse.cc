// The few bytes around each event.
#include "serve/sse.h"

#include "base/check.h"

namespace ashlar {

void append_sse(std::string& out, std::string_view json) {
  CHECK(json.find_first_of("\r\n") == std::string_view::npos);
  out += "data: ";
  out += json;
  out += "\n\n";
}

void append_sse_done(std::string& out) { append_sse(out, "[DONE]"); }

void append_sse_error(std::string& out, const ApiError& error) {
  append_sse(out, error_json(error));
}

}  // namespace ashlar
