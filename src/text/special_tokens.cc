// Tables and checks; see the header.
#include "text/special_tokens.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace ashlar {
namespace {

using Json = nlohmann::json;

// Pre-tokenizer names whose vocabularies start with BOS and emit a word that is a token without
// merging it.
constexpr std::array<std::string_view, 8> kWholeWordNames = {
    "llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"};

constexpr std::array<std::string_view, 19> kEndOfGeneration = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<turn|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "</s>",
    "<eos>",
    "<|eos|>",
    "<end_of_utterance>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};

// A token is written as a text or as an object with its content.
Result<std::optional<std::string>> token_text(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return std::nullopt;
  const Json* text = &*found;
  if (found->is_object()) {
    const auto content = found->find("content");
    if (content != found->end()) text = &*content;
  }
  if (!text->is_string()) {
    return fail(ErrorCode::kCorrupt, "tokenizer_config.json: {} is not a text", key);
  }
  return text->get<std::string>();
}

std::optional<bool> flag(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || !found->is_boolean()) return std::nullopt;
  return found->get<bool>();
}

// The classes that rebuild their post-processor from add_bos_token and add_eos_token; others ignore
// the keys.
bool flags_override(const Json& config) {
  const auto found = config.find("tokenizer_class");
  if (found == config.end() || !found->is_string()) return false;
  const std::string_view name = found->get_ref<const std::string&>();
  return name.starts_with("LlamaTokenizer") || name.starts_with("GemmaTokenizer") ||
         name.starts_with("CodeLlamaTokenizer");
}

}  // namespace

GgufDefaults gguf_defaults(std::string_view model, std::string_view pre) {
  GgufDefaults out;
  if (model == "llama") {
    out = {.bos = 1,
           .eos = 2,
           .unknown = 0,
           .add_bos = true,
           .add_space_prefix = true,
           .ignore_merges = false};
  } else {
    const bool whole_words = std::ranges::find(kWholeWordNames, pre) != kWholeWordNames.end();
    out = {.bos = 11,
           .eos = 11,
           .unknown = {},
           .add_bos = whole_words,
           .add_space_prefix = false,
           .ignore_merges = whole_words};
  }
  return out;
}

Result<GgufSpecialIds> check_gguf_ids(const GgufVocabulary& vocabulary,
                                      const GgufDefaults& defaults) {
  const auto count = static_cast<int64_t>(vocabulary.tokens.size());
  auto check = [count](std::string_view name, std::optional<int64_t> stated,
                       std::optional<int64_t> fallback) -> Result<std::optional<int32_t>> {
    if (stated && (*stated < 0 || *stated >= count)) {
      return fail(ErrorCode::kCorrupt, "the {} id {} is outside the vocabulary of {} tokens", name,
                  *stated, count);
    }
    const std::optional<int64_t> id = stated ? stated : fallback;
    if (!id || *id >= count) return std::nullopt;
    return static_cast<int32_t>(*id);
  };
  GgufSpecialIds out;
  ASHLAR_ASSIGN(out.bos, check("BOS", vocabulary.bos_id, defaults.bos));
  ASHLAR_ASSIGN(out.eos, check("EOS", vocabulary.eos_id, defaults.eos));
  ASHLAR_ASSIGN(out.unknown, check("unknown", vocabulary.unknown_id, defaults.unknown));
  ASHLAR_TRY(check("padding", vocabulary.padding_id, {}));
  ASHLAR_ASSIGN(const std::optional<int32_t> eot, check("end-of-turn", vocabulary.eot_id, {}));
  ASHLAR_ASSIGN(const std::optional<int32_t> eom, check("end-of-message", vocabulary.eom_id, {}));
  for (const std::optional<int32_t>& id : {out.eos, eot, eom}) {
    if (id) out.end_of_generation.push_back(*id);
  }
  return out;
}

Result<ConfigTokens> read_config_tokens(std::string_view tokenizer_config_json) {
  ConfigTokens out;
  if (tokenizer_config_json.empty()) return out;
  const Json config = Json::parse(tokenizer_config_json, nullptr, false);
  if (!config.is_object()) {
    return fail(ErrorCode::kCorrupt, "tokenizer_config.json is not a JSON object");
  }
  ASHLAR_ASSIGN(out.bos_text, token_text(config, "bos_token"));
  ASHLAR_ASSIGN(out.eos_text, token_text(config, "eos_token"));
  if (flags_override(config)) {
    out.add_bos = flag(config, "add_bos_token");
    out.add_eos = flag(config, "add_eos_token");
  }
  return out;
}

std::span<const std::string_view> end_of_generation_spellings() { return kEndOfGeneration; }

}  // namespace ashlar
