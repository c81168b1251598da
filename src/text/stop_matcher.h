// StopMatcher: passes a stream of text on until one of the stop strings is complete.
//
// Text is held back only while it may still be the start of a stop string, and a stop string is
// never passed on. The stop that ends first wins, the longest of those on a tie, so the result does
// not depend on how the text was cut. Plain byte matching is right for UTF-8: a stop string is
// whole code points, and so is the text (Detokenizer).
#ifndef ASHLAR_TEXT_STOP_MATCHER_H_
#define ASHLAR_TEXT_STOP_MATCHER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ashlar {

class StopMatcher {
 public:
  // No stop strings at all: everything passes. Errors: an empty stop string, one that is not UTF-8.
  static Result<StopMatcher> create(std::vector<std::string> stops);

  // Text that may be shown now. After a stop it is always empty.
  std::string push(std::string_view text);
  // The end of the text without a stop: what was held back.
  std::string flush();

  bool stopped() const { return stopped_.has_value(); }
  // The index of the stop string that ended the text.
  std::optional<size_t> stop_index() const { return stopped_; }

 private:
  explicit StopMatcher(std::vector<std::string> stops);

  size_t held_size() const;

  std::vector<std::string> stops_;
  size_t longest_ = 0;
  std::string held_;
  std::optional<size_t> stopped_;
};

}  // namespace ashlar

#endif  // ASHLAR_TEXT_STOP_MATCHER_H_
