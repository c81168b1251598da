// Cuts a stream of bytes into valid UTF-8.
//
// Complete code points pass; bytes that can no longer become one are replaced by U+FFFD, one for
// each maximal part of a code point (Unicode 3.9, as Python's errors="replace" and Rust's
// from_utf8_lossy do); what may still become one waits.
#ifndef ASHLAR_TEXT_UTF8_H_
#define ASHLAR_TEXT_UTF8_H_

#include <string>
#include <string_view>

namespace ashlar {

class Utf8Stream {
 public:
  // Appends to `out` what is certain.
  void push(std::string_view bytes, std::string& out);
  // Ends the stream: an unfinished code point becomes U+FFFD. The object is then as new.
  void flush(std::string& out);

 private:
  std::string pending_;  // at most three bytes, the start of a code point
};

bool is_valid_utf8(std::string_view text);

}  // namespace ashlar

#endif  // ASHLAR_TEXT_UTF8_H_
