// Which tokens begin, end and bound a text: what the files state, checked, and the defaults where
// they are silent. For tokenizer.cc; the rules for GGUF are llama.cpp's, those for
// tokenizer_config.json are transformers'.
#ifndef ASHLAR_TEXT_SPECIAL_TOKENS_H_
#define ASHLAR_TEXT_SPECIAL_TOKENS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/gguf_vocabulary.h"

namespace ashlar {

constexpr int32_t kGgufUnusedToken = 5;

// What a GGUF vocabulary means where it is silent.
struct GgufDefaults {
  std::optional<int64_t> bos, eos, unknown;
  bool add_bos = false;
  bool add_space_prefix = false;
  bool ignore_merges = false;
};

GgufDefaults gguf_defaults(std::string_view model, std::string_view pre);

struct GgufSpecialIds {
  std::optional<int32_t> bos, eos, unknown;
  std::vector<int32_t> end_of_generation;  // eos, end of turn, end of message
};

// Errors: an id that the file states and the vocabulary does not have. A default that does not fit
// is no id.
Result<GgufSpecialIds> check_gguf_ids(const GgufVocabulary& vocabulary,
                                      const GgufDefaults& defaults);

// What tokenizer_config.json says. add_bos and add_eos are set only where they override the
// post-processor.
struct ConfigTokens {
  std::optional<std::string> bos_text, eos_text;
  std::optional<bool> add_bos, add_eos;
};

Result<ConfigTokens> read_config_tokens(std::string_view tokenizer_config_json);

// Spellings of tokens that end an answer whatever a file calls them.
std::span<const std::string_view> end_of_generation_spellings();

}  // namespace ashlar

#endif  // ASHLAR_TEXT_SPECIAL_TOKENS_H_
