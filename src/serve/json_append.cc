// Escaping and float printing behind json_append.h.
#include "serve/json_append.h"

#include <fmt/format.h>

#include <cmath>

#include "text/utf8.h"

namespace ashlar {

void append_json_string(std::string& out, std::string_view text) {
  std::string repaired;
  if (!is_valid_utf8(text)) {
    Utf8Stream stream;
    stream.push(text, repaired);
    stream.flush(repaired);
    text = repaired;
  }
  out += '"';
  size_t plain = 0;  // start of the bytes that are copied as they are
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) continue;
    out += text.substr(plain, i - plain);
    plain = i + 1;
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += fmt::format("\\u{:04x}", c);
    }
  }
  out += text.substr(plain);
  out += '"';
}

void append_json_float(std::string& out, float value) {
  if (!std::isfinite(value)) value = -9999;
  out += fmt::format("{}", value);
}

}  // namespace ashlar
