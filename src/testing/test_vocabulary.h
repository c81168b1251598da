// Small vocabularies written by hand, for tests of text and of what uses it.
#ifndef ASHLAR_TESTING_TEST_VOCABULARY_H_
#define ASHLAR_TESTING_TEST_VOCABULARY_H_

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/gguf_vocabulary.h"

namespace ashlar {

// Owns the texts that a GgufVocabulary points into.
class TestVocabulary {
 public:
  TestVocabulary& add(std::string token, int32_t type = 1, float score = 0) {
    tokens_.push_back(std::move(token));
    types_.push_back(type);
    scores_.push_back(score);
    return *this;
  }
  TestVocabulary& merge(std::string pair) {
    merges_.push_back(std::move(pair));
    return *this;
  }

  // Valid until the next change.
  GgufVocabulary view(std::string_view model, std::string_view pre = {}) {
    token_views_.assign(tokens_.begin(), tokens_.end());
    merge_views_.assign(merges_.begin(), merges_.end());
    GgufVocabulary out;
    out.model = model;
    out.pre = pre;
    out.tokens = token_views_;
    out.merges = merge_views_;
    out.types = types_;
    if (model == "llama") out.scores = scores_;
    return out;
  }

 private:
  std::vector<std::string> tokens_, merges_;
  std::vector<std::string_view> token_views_, merge_views_;
  std::vector<int32_t> types_;
  std::vector<float> scores_;
};

// SentencePiece: <unk> <s> </s>, the 256 byte tokens (ids 3 to 258), then what a test adds from id
// 259.
inline TestVocabulary sentencepiece_vocabulary() {
  TestVocabulary out;
  out.add("<unk>", 2).add("<s>", 3).add("</s>", 3);
  for (int byte = 0; byte < 256; ++byte) out.add(fmt::format("<0x{:02X}>", byte), 6);
  return out;
}

// Byte-level: "a" to "z", the letter for a space (U+0120), digits; ids from 0.
inline TestVocabulary byte_level_vocabulary() {
  TestVocabulary out;
  for (char letter = 'a'; letter <= 'z'; ++letter) out.add(std::string(1, letter));
  out.add("\u0120");
  for (char digit = '0'; digit <= '9'; ++digit) out.add(std::string(1, digit));
  return out;
}

}  // namespace ashlar

#endif  // ASHLAR_TESTING_TEST_VOCABULARY_H_
