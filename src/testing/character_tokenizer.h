// A tokenizer of one printable character a token, for tests of text that a model without a
// vocabulary answers with.
#ifndef ASHLAR_TESTING_CHARACTER_TOKENIZER_H_
#define ASHLAR_TESTING_CHARACTER_TOKENIZER_H_

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "base/check.h"
#include "text/tokenizer.h"

namespace ashlar {

// Ids 0 to count - 1, at most 73: a to z, A to Z, * to >.
inline Tokenizer character_tokenizer(int64_t count) {
  std::string vocabulary;
  for (int64_t i = 0; i < count; ++i) {
    const char c = static_cast<char>(i < 26 ? 'a' + i : i < 52 ? 'A' + (i - 26) : '*' + (i - 52));
    vocabulary += fmt::format("{}\"{}\":{}", i == 0 ? "" : ",", c, i);
  }
  const std::string json = fmt::format(
      R"({{"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,
          "post_processor":null,
          "decoder":{{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}},
          "model":{{"type":"BPE","vocab":{{{}}},"merges":[]}}}})",
      vocabulary);
  Result<Tokenizer> result = Tokenizer::from_json(json, "");
  CHECK(result.has_value());
  return *std::move(result);
}

}  // namespace ashlar

#endif  // ASHLAR_TESTING_CHARACTER_TOKENIZER_H_
