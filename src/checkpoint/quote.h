// Names that come from a file, made safe to print: control and non-ASCII bytes escaped, long ones
// cut. For messages only; nothing is compared or stored in this form.
#ifndef ASHLAR_CHECKPOINT_QUOTE_H_
#define ASHLAR_CHECKPOINT_QUOTE_H_

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace ashlar {

inline bool is_printable_ascii(std::string_view text) {
  for (const char c : text) {
    if (c < 0x20 || c > 0x7e) return false;
  }
  return true;
}

inline std::string quote_name(std::string_view text, size_t max_bytes = 100) {
  std::string out = "\"";
  for (const char c : text.substr(0, max_bytes)) {
    if (c >= 0x20 && c <= 0x7e && c != '"' && c != '\\') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  out += text.size() > max_bytes ? "…\"" : "\"";
  return out;
}

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_QUOTE_H_
