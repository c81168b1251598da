// The vocabulary and chat templates of a GGUF file, as its metadata states them.
//
// A plain struct between the container (checkpoint/gguf.h) and the tokenizer, so that tests write
// vocabularies by hand. Nothing is checked against anything else here; Tokenizer::from_gguf does
// that. Views point into the file's mapping and must outlive the call that uses the struct, not
// longer.
#ifndef ASHLAR_TEXT_GGUF_VOCABULARY_H_
#define ASHLAR_TEXT_GGUF_VOCABULARY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/gguf.h"

namespace ashlar {

struct GgufVocabulary {
  std::string_view model;                    // tokenizer.ggml.model: "gpt2" or "llama"
  std::string_view pre;                      // tokenizer.ggml.pre; empty where the file has none
  std::span<const std::string_view> tokens;  // [V]
  std::span<const std::string_view> merges;  // "left right", best first
  std::vector<int32_t> types;                // [V], or empty
  std::vector<float> scores;                 // [V], or empty
  std::optional<int64_t> bos_id, eos_id, unknown_id, padding_id, eot_id, eom_id;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  // (name, template); the plain tokenizer.chat_template has the name "default".
  std::vector<std::pair<std::string_view, std::string_view>> chat_templates;
};

// Errors: a tokenizer key of the wrong kind, or no vocabulary at all.
Result<GgufVocabulary> read_gguf_vocabulary(const GgufFile& file);

}  // namespace ashlar

#endif  // ASHLAR_TEXT_GGUF_VOCABULARY_H_
