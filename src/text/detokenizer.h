// Detokenizer: turns a stream of ids into a stream of text, for one sequence.
//
// push() returns what an id makes certain: never half a code point, and none is ever lost, because
// what an id leaves unfinished waits for the next. The pieces joined equal Tokenizer::decode() of
// all ids. Bytes that are no UTF-8 become U+FFFD as soon as they cannot become a code point, at the
// latest in flush(); where the tokenizers crate replaces every byte of a byte-fallback run that is
// invalid anywhere, only the invalid part is replaced here.
#ifndef ASHLAR_TEXT_DETOKENIZER_H_
#define ASHLAR_TEXT_DETOKENIZER_H_

#include <cstdint>
#include <string>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace ashlar {

struct DetokenizeOptions {
  bool skip_special = true;
  // The ids start a text. Off for ids that continue a prompt whose text stands before them: a first
  // word then keeps its space.
  bool at_start = true;
};

class Detokenizer {
 public:
  explicit Detokenizer(Tokenizer tokenizer, DetokenizeOptions options = {});

  // An id without a token adds nothing.
  std::string push(int32_t id);
  // The end of the ids: an unfinished code point becomes U+FFFD. Afterwards the object is as new.
  std::string flush();

 private:
  Tokenizer tokenizer_;
  DetokenizeOptions options_;
  bool at_start_;
  Utf8Stream stream_;
};

}  // namespace ashlar

#endif  // ASHLAR_TEXT_DETOKENIZER_H_
