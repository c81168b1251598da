// Tokenizer: text to token ids and back, from a tokenizer.json or from a GGUF vocabulary.
//
// The references are the crate `tokenizers` for the former and llama.cpp for the latter; golden
// tests hold both to their ids. Copies share one immutable state and every const function may run
// on any thread. Text is UTF-8; invalid UTF-8 is an error on the way in and U+FFFD on the way out
// (text/detokenizer.h, which also streams).
#ifndef ASHLAR_TEXT_TOKENIZER_H_
#define ASHLAR_TEXT_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/gguf_vocabulary.h"

namespace ashlar {

struct EncodeOptions {
  // BOS and EOS as the model wants them. Off for a rendered chat template, which writes its own.
  bool add_special = true;
  // Control tokens written in the text become their ids. On for rendered templates, off for what a
  // user typed.
  bool parse_special = false;
};

// What decoded text leaves out at its start.
enum class LeadingSpace {
  kKept,
  kOneDropped,         // SentencePiece: the space that encoding put before the first word
  kFirstTokenDropped,  // every space of the first token, as the Metaspace decoder does
};

class Tokenizer {
 public:
  // tokenizer_config_json may be empty: then there are no BOS and EOS and the post-processor alone
  // adds tokens.
  static Result<Tokenizer> from_json(std::string_view tokenizer_json,
                                     std::string_view tokenizer_config_json);
  static Result<Tokenizer> from_gguf(const GgufVocabulary& vocabulary);

  Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options = {}) const;
  // Error: an id outside [0, vocab_size()).
  Result<std::string> decode(std::span<const int32_t> ids, bool skip_special) const;

  // The decodable vocabulary: ids at and beyond it have no text and must never be sampled.
  int vocab_size() const;
  // What an id adds to decoded text, perhaps part of a code point; empty for an id without a token.
  std::string_view token_bytes(int32_t id) const;
  // The most bytes of a text that one token of encode() stands for; 0 where there is no bound,
  // since text may vanish or any amount of it become one token.
  int64_t most_text_bytes() const;
  bool is_special(int32_t id) const;  // a control or unknown token
  std::optional<int32_t> token_to_id(
      std::string_view token) const;  // by its spelling in the vocabulary
  LeadingSpace leading_space() const;

  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::string_view bos_text() const;  // spelling, for chat templates; empty without one
  std::string_view eos_text() const;
  bool adds_bos() const;  // encode() with add_special starts with bos_id()
  // EOS, end of turn, end of message and special tokens spelled like them; sorted.
  const std::vector<int32_t>& end_of_generation_ids() const;

 private:
  struct State;
  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

}  // namespace ashlar

#endif  // ASHLAR_TEXT_TOKENIZER_H_
