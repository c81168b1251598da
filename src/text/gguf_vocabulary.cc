// Reads the tokenizer keys of a GGUF file. A key that is absent stays absent; one of the wrong kind
// is refused by name, because a vocabulary that is half understood gives plausible and wrong ids.
#include "text/gguf_vocabulary.h"

#include <string>

namespace ashlar {
namespace {

tl::unexpected<Error> wrong_kind(std::string_view key, const GgufValue& value) {
  return fail(ErrorCode::kCorrupt, "{} is {}", key, value.describe());
}

Status read(const GgufFile& file, std::string_view key, std::string_view& out) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return {};
  std::optional<std::string_view> text = value->as_string();
  if (!text) return wrong_kind(key, *value);
  out = *text;
  return {};
}

Status read(const GgufFile& file, std::string_view key, std::optional<int64_t>& out) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return {};
  out = value->as_integer();
  if (!out) return wrong_kind(key, *value);
  return {};
}

Status read(const GgufFile& file, std::string_view key, std::optional<bool>& out) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return {};
  out = value->as_bool();
  if (!out) return wrong_kind(key, *value);
  return {};
}

Status read(const GgufFile& file, std::string_view key, std::span<const std::string_view>& out) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return {};
  const std::vector<std::string_view>* strings = value->as_strings();
  if (strings == nullptr) return wrong_kind(key, *value);
  out = *strings;
  return {};
}

Status read_types(const GgufFile& file, std::vector<int32_t>& out) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  const GgufValue* value = file.find(kKey);
  if (value == nullptr) return {};
  std::optional<std::vector<int64_t>> types = value->as_integers();
  if (!types) return wrong_kind(kKey, *value);
  out.reserve(types->size());
  for (int64_t type : *types) {
    if (type < 0 || type > 6) return fail(ErrorCode::kCorrupt, "{} holds {}", kKey, type);
    out.push_back(static_cast<int32_t>(type));
  }
  return {};
}

Status read_scores(const GgufFile& file, std::vector<float>& out) {
  constexpr std::string_view kKey = "tokenizer.ggml.scores";
  const GgufValue* value = file.find(kKey);
  if (value == nullptr) return {};
  std::optional<std::vector<float>> scores = value->as_floats();
  if (!scores) return wrong_kind(kKey, *value);
  out = std::move(*scores);
  return {};
}

Status read_templates(const GgufFile& file, GgufVocabulary& out) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  std::string_view plain;
  ASHLAR_TRY(read(file, kKey, plain));
  if (!plain.empty()) out.chat_templates.emplace_back("default", plain);
  std::span<const std::string_view> names;
  ASHLAR_TRY(read(file, "tokenizer.chat_templates", names));
  for (std::string_view name : names) {
    std::string_view named;
    ASHLAR_TRY(read(file, fmt::format("{}.{}", kKey, name), named));
    if (!named.empty()) out.chat_templates.emplace_back(name, named);
  }
  return {};
}

}  // namespace

Result<GgufVocabulary> read_gguf_vocabulary(const GgufFile& file) {
  GgufVocabulary out;
  ASHLAR_TRY(read(file, "tokenizer.ggml.model", out.model));
  ASHLAR_TRY(read(file, "tokenizer.ggml.pre", out.pre));
  ASHLAR_TRY(read(file, "tokenizer.ggml.tokens", out.tokens));
  ASHLAR_TRY(read(file, "tokenizer.ggml.merges", out.merges));
  ASHLAR_TRY(read_types(file, out.types));
  ASHLAR_TRY(read_scores(file, out.scores));
  ASHLAR_TRY(read(file, "tokenizer.ggml.bos_token_id", out.bos_id));
  ASHLAR_TRY(read(file, "tokenizer.ggml.eos_token_id", out.eos_id));
  ASHLAR_TRY(read(file, "tokenizer.ggml.unknown_token_id", out.unknown_id));
  ASHLAR_TRY(read(file, "tokenizer.ggml.padding_token_id", out.padding_id));
  ASHLAR_TRY(read(file, "tokenizer.ggml.eot_token_id", out.eot_id));
  ASHLAR_TRY(read(file, "tokenizer.ggml.eom_token_id", out.eom_id));
  ASHLAR_TRY(read(file, "tokenizer.ggml.add_bos_token", out.add_bos));
  ASHLAR_TRY(read(file, "tokenizer.ggml.add_eos_token", out.add_eos));
  ASHLAR_TRY(read(file, "tokenizer.ggml.add_space_prefix", out.add_space_prefix));
  ASHLAR_TRY(read_templates(file, out));
  if (out.model.empty() || out.tokens.empty()) {
    return fail(ErrorCode::kNotFound, "{}: the file has no vocabulary", file.name());
  }
  return out;
}

}  // namespace ashlar
