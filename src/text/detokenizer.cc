// The rule for the start of the text, then the byte stream; all else was computed when the
// tokenizer was built.
#include "text/detokenizer.h"

#include <algorithm>
#include <utility>

namespace ashlar {

Detokenizer::Detokenizer(Tokenizer tokenizer, DetokenizeOptions options)
    : tokenizer_(std::move(tokenizer)), options_(options), at_start_(options.at_start) {}

std::string Detokenizer::push(int32_t id) {
  std::string out;
  if (options_.skip_special && tokenizer_.is_special(id)) return out;
  std::string_view bytes = tokenizer_.token_bytes(id);
  if (bytes.empty()) return out;
  if (!std::exchange(at_start_, false)) {
    stream_.push(bytes, out);
    return out;
  }
  switch (tokenizer_.leading_space()) {
    case LeadingSpace::kKept:
      stream_.push(bytes, out);
      break;
    case LeadingSpace::kOneDropped:
      if (bytes.front() == ' ') bytes.remove_prefix(1);
      stream_.push(bytes, out);
      break;
    case LeadingSpace::kFirstTokenDropped: {
      std::string kept(bytes);
      std::erase(kept, ' ');
      stream_.push(kept, out);
      break;
    }
  }
  return out;
}

std::string Detokenizer::flush() {
  std::string out;
  stream_.flush(out);
  at_start_ = options_.at_start;
  return out;
}

Result<std::string> Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  Detokenizer detokenizer(*this, {.skip_special = skip_special, .at_start = true});
  std::string text;
  for (int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) {
      return fail(ErrorCode::kOutOfRange, "id {} is outside the vocabulary of {} tokens", id,
                  vocab_size());
    }
    text += detokenizer.push(id);
  }
  text += detokenizer.flush();
  return text;
}

}  // namespace ashlar
