// A tokenizer for synthetic models: a byte-level BPE of any width, as the text of a tokenizer.json.
//
// Four special tokens, then the 256 bytes, then generated merges of letters: a space or a letter
// with a letter, then two such pairs, common letters of English first. Bytes make every text
// encodable and every encoding reversible; what a token says means nothing.
#ifndef ASHLAR_CHECKPOINT_SYNTHETIC_TOKENIZER_H_
#define ASHLAR_CHECKPOINT_SYNTHETIC_TOKENIZER_H_

#include <cstdint>
#include <string>

namespace ashlar {

inline constexpr int kSyntheticBos = 0;      // <|bos|>
inline constexpr int kSyntheticEos = 1;      // <|eos|>
inline constexpr int kSyntheticImStart = 2;  // <|im_start|>
inline constexpr int kSyntheticImEnd = 3;    // <|im_end|>
inline constexpr int64_t kMinSyntheticTokens = 4 + 256;
inline constexpr int64_t kMaxSyntheticTokens = kMinSyntheticTokens + 27 * 26 + 702 * 676;

// tokens: from kMinSyntheticTokens to kMaxSyntheticTokens.
std::string synthetic_tokenizer_json(int64_t tokens);
// With the chat template.
std::string synthetic_tokenizer_config_json(int64_t context_length);

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_SYNTHETIC_TOKENIZER_H_
