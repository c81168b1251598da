// JSON written by appending to a string: what goes out for every token should cost a few copies,
// not a tree of nodes. Reading JSON is nlohmann's business (checkpoint/json_text.h).
#ifndef ASHLAR_SERVE_JSON_APPEND_H_
#define ASHLAR_SERVE_JSON_APPEND_H_

#include <string>
#include <string_view>

namespace ashlar {

// The text in quotes, with what JSON requires escaped. Bytes that are no UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

// The shortest text that reads back as the same float. Minus infinity, which JSON lacks, is -9999
// as elsewhere in this API.
void append_json_float(std::string& out, float value);

}  // namespace ashlar

#endif  // ASHLAR_SERVE_JSON_APPEND_H_
