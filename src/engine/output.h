// OutputText: the text of one choice, made from its tokens: whole code points, no stop string,
// nothing lost.
//
// It sees tokens only and may therefore live on whichever thread handles output; what it decides (a
// stop string) does not depend on how tokens were grouped. Without a tokenizer it makes no text.
#ifndef ASHLAR_ENGINE_OUTPUT_H_
#define ASHLAR_ENGINE_OUTPUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"

namespace ashlar {

class OutputText {
 public:
  // tokenizer may be null, then stops must be empty.
  static Result<OutputText> create(const Tokenizer* tokenizer,
                                   const std::vector<std::string>& stops);

  // What a token adds to the printable text. True in stopped() afterwards: a stop string is
  // complete.
  std::string push(int32_t token);
  // The end without a stop string: what was held back.
  std::string flush();

  bool stopped() const { return matcher_ && matcher_->stopped(); }
  std::string stop_text() const;

 private:
  std::optional<Detokenizer> detokenizer_;
  std::optional<StopMatcher> matcher_;
  std::vector<std::string> stops_;
};

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_OUTPUT_H_
