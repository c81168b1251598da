// Chains the detokenizer and the stop matcher.
#include "engine/output.h"

namespace ashlar {

Result<OutputText> OutputText::create(const Tokenizer* tokenizer,
                                      const std::vector<std::string>& stops) {
  OutputText result;
  if (tokenizer == nullptr) {
    if (!stops.empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  "stop: stop strings need a tokenizer, and there is none");
    }
    return result;
  }
  // The ids continue a prompt, so a first word keeps its space.
  result.detokenizer_.emplace(*tokenizer,
                              DetokenizeOptions{.skip_special = true, .at_start = false});
  ASHLAR_ASSIGN(StopMatcher matcher, StopMatcher::create(stops));
  result.matcher_.emplace(std::move(matcher));
  result.stops_ = stops;
  return result;
}

std::string OutputText::push(int32_t token) {
  if (!detokenizer_) return {};
  return matcher_->push(detokenizer_->push(token));
}

std::string OutputText::flush() {
  if (!detokenizer_ || stopped()) return {};
  std::string text = matcher_->push(detokenizer_->flush());
  if (!stopped()) text += matcher_->flush();
  return text;
}

std::string OutputText::stop_text() const {
  if (!stopped()) return {};
  return stops_[*matcher_->stop_index()];
}

}  // namespace ashlar
