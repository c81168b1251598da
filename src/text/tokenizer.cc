// Builds the shared state of a tokenizer from either source: the library's handle, the decode
// table, the ids that mean something. What differs between the sources ends here.
#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/rust_bridge.h"
#include "text/special_tokens.h"

namespace ashlar {

struct Tokenizer::State {
  AshlarTokenizer* handle = nullptr;
  std::string bytes;              // what ids decode to, one after the other
  std::vector<uint32_t> offsets;  // [ids + 1]
  std::vector<uint8_t> flags;     // [ids]
  LeadingSpace leading_space = LeadingSpace::kKept;
  int vocab_size = 0;
  uint64_t most_text = 0;
  std::optional<int32_t> bos, eos;
  std::string bos_text, eos_text;
  // The handle's own post-processor adds BOS and EOS; otherwise the two flags below do.
  bool post_processor = false;
  bool add_bos = false;
  bool add_eos = false;
  std::vector<int32_t> end_of_generation;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { ashlar_tokenizer_free(handle); }

  Status read_table();
  Status raw_encode(std::string_view text, EncodeOptions options, std::vector<int32_t>& ids) const;
  std::string_view bytes_of(int32_t id) const;
  std::optional<int32_t> find(std::string_view token) const;
  void find_end_of_generation(std::vector<int32_t> known);
};

Status Tokenizer::State::read_table() {
  RustBuffer text, ends, marks, error;
  AshlarStrip strip = ASHLAR_STRIP_NONE;
  ASHLAR_TRY(rust_status(ashlar_tokenizer_table(handle, text.out(), ends.out(), marks.out(), &strip,
                                                &most_text, error.out()),
                         error));
  bytes = text.text();
  offsets = ends.array<uint32_t>();
  flags = marks.array<uint8_t>();
  CHECK_EQ(offsets.size(), flags.size() + 1);
  vocab_size = static_cast<int>(flags.size());
  if (strip == ASHLAR_STRIP_ONE_SPACE) leading_space = LeadingSpace::kOneDropped;
  if (strip == ASHLAR_STRIP_TOKEN_SPACES) leading_space = LeadingSpace::kFirstTokenDropped;
  return {};
}

Status Tokenizer::State::raw_encode(std::string_view text, EncodeOptions options,
                                    std::vector<int32_t>& ids) const {
  RustBuffer found, error;
  const bool add_special = options.add_special && post_processor;
  ASHLAR_TRY(rust_status(ashlar_tokenizer_encode(handle, rust_bytes(text), add_special,
                                                 options.parse_special, found.out(), error.out()),
                         error));
  ids = found.array<int32_t>();
  // A post-processor states ids of its own, which need not be those of the vocabulary. At load this
  // runs on an empty text, so such a file is refused there.
  for (const int32_t id : ids) {
    if (id >= 0 && static_cast<size_t>(id) < flags.size()) continue;
    return fail(ErrorCode::kCorrupt,
                "tokenizer.json adds the token {}, but its vocabulary has {} tokens", id,
                flags.size());
  }
  return {};
}

std::string_view Tokenizer::State::bytes_of(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= flags.size()) return {};
  const auto i = static_cast<size_t>(id);
  return std::string_view(bytes).substr(offsets[i], offsets[i + 1] - offsets[i]);
}

std::optional<int32_t> Tokenizer::State::find(std::string_view token) const {
  const int32_t id = ashlar_tokenizer_token_to_id(handle, rust_bytes(token));
  if (id < 0) return std::nullopt;
  return id;
}

void Tokenizer::State::find_end_of_generation(std::vector<int32_t> known) {
  end_of_generation = std::move(known);
  const bool harmony = find("<|return|>") && find("<|call|>");
  for (std::string_view spelling : end_of_generation_spellings()) {
    if (harmony && spelling == "<|end|>") continue;  // there it ends a message, not the turn
    const std::optional<int32_t> id = find(spelling);
    // Only special tokens: "</s>" is also an HTML tag, which a vocabulary may hold as an ordinary
    // token.
    if (id && (flags[static_cast<size_t>(*id)] & ASHLAR_TOKEN_SPECIAL) != 0) {
      end_of_generation.push_back(*id);
    }
  }
  std::ranges::sort(end_of_generation);
  const auto repeated = std::ranges::unique(end_of_generation);
  end_of_generation.erase(repeated.begin(), repeated.end());
}

Result<Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json,
                                       std::string_view tokenizer_config_json) {
  ASHLAR_ASSIGN(const ConfigTokens config, read_config_tokens(tokenizer_config_json));
  auto state = std::make_shared<State>();
  RustBuffer error;
  ASHLAR_TRY(rust_status(
      ashlar_tokenizer_from_json(rust_bytes(tokenizer_json), &state->handle, error.out()), error));
  ASHLAR_TRY(state->read_table());
  auto resolve = [&](std::string_view what, const std::optional<std::string>& text,
                     std::optional<int32_t>& id, std::string& spelling) -> Status {
    if (!text) return {};
    id = state->find(*text);
    if (!id) {
      return fail(ErrorCode::kCorrupt, "tokenizer_config.json: {} \"{}\" is not in tokenizer.json",
                  what, *text);
    }
    spelling = *text;
    return {};
  };
  ASHLAR_TRY(resolve("bos_token", config.bos_text, state->bos, state->bos_text));
  ASHLAR_TRY(resolve("eos_token", config.eos_text, state->eos, state->eos_text));
  state->post_processor = !config.add_bos && !config.add_eos;
  state->add_bos = config.add_bos.value_or(false);
  state->add_eos = config.add_eos.value_or(false);
  if ((state->add_bos && !state->bos) || (state->add_eos && !state->eos)) {
    return fail(ErrorCode::kCorrupt,
                "tokenizer_config.json asks for a BOS or EOS token that it does not name");
  }
  if (state->post_processor) {
    std::vector<int32_t> added;
    ASHLAR_TRY(state->raw_encode("", {.add_special = true, .parse_special = false}, added));
    state->add_bos = state->bos && !added.empty() && added.front() == *state->bos;
  }
  std::vector<int32_t> known;
  if (state->eos) known.push_back(*state->eos);
  state->find_end_of_generation(std::move(known));
  return Tokenizer(std::move(state));
}

Result<Tokenizer> Tokenizer::from_gguf(const GgufVocabulary& vocabulary) {
  const GgufDefaults defaults = gguf_defaults(vocabulary.model, vocabulary.pre);
  ASHLAR_ASSIGN(const GgufSpecialIds ids, check_gguf_ids(vocabulary, defaults));
  const size_t count = vocabulary.tokens.size();
  if (!vocabulary.types.empty() && vocabulary.types.size() != count) {
    return fail(ErrorCode::kCorrupt, "{} token types for {} tokens", vocabulary.types.size(),
                count);
  }
  if (!vocabulary.scores.empty() && vocabulary.scores.size() != count) {
    return fail(ErrorCode::kCorrupt, "{} scores for {} tokens", vocabulary.scores.size(), count);
  }
  std::vector<AshlarBytes> tokens(count), merges(vocabulary.merges.size());
  std::ranges::transform(vocabulary.tokens, tokens.begin(), rust_bytes);
  std::ranges::transform(vocabulary.merges, merges.begin(), rust_bytes);
  const AshlarVocabulary raw = {
      .tokens = tokens.data(),
      .token_count = count,
      .types = vocabulary.types.empty() ? nullptr : vocabulary.types.data(),
      .scores = vocabulary.scores.empty() ? nullptr : vocabulary.scores.data(),
      .merges = merges.data(),
      .merge_count = merges.size(),
      .model = rust_bytes(vocabulary.model),
      .pre = rust_bytes(vocabulary.pre),
      .unknown_id = ids.unknown.value_or(-1),
      .ignore_merges = defaults.ignore_merges,
      .add_space_prefix = vocabulary.add_space_prefix.value_or(defaults.add_space_prefix),
  };
  auto state = std::make_shared<State>();
  RustBuffer error;
  ASHLAR_TRY(
      rust_status(ashlar_tokenizer_from_vocabulary(&raw, &state->handle, error.out()), error));
  ASHLAR_TRY(state->read_table());
  // Files pad the vocabulary to the width of the embedding with unused tokens.
  while (state->vocab_size > 0 && !vocabulary.types.empty() &&
         vocabulary.types[static_cast<size_t>(state->vocab_size) - 1] == kGgufUnusedToken) {
    --state->vocab_size;
  }
  state->bos = ids.bos;
  state->eos = ids.eos;
  if (ids.bos) state->bos_text = vocabulary.tokens[static_cast<size_t>(*ids.bos)];
  if (ids.eos) state->eos_text = vocabulary.tokens[static_cast<size_t>(*ids.eos)];
  state->add_bos = ids.bos && vocabulary.add_bos.value_or(defaults.add_bos);
  state->add_eos = ids.eos && vocabulary.add_eos.value_or(false);
  state->find_end_of_generation(ids.end_of_generation);
  return Tokenizer(std::move(state));
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<int32_t> ids;
  ASHLAR_TRY(state_->raw_encode(text, options, ids));
  if (options.add_special && !state_->post_processor) {
    if (state_->add_bos) ids.insert(ids.begin(), *state_->bos);
    if (state_->add_eos) ids.push_back(*state_->eos);
  }
  return ids;
}

int64_t Tokenizer::most_text_bytes() const { return static_cast<int64_t>(state_->most_text); }

int Tokenizer::vocab_size() const { return state_->vocab_size; }

std::string_view Tokenizer::token_bytes(int32_t id) const { return state_->bytes_of(id); }

bool Tokenizer::is_special(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= state_->flags.size()) return false;
  return (state_->flags[static_cast<size_t>(id)] & ASHLAR_TOKEN_SPECIAL) != 0;
}

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  return state_->find(token);
}

LeadingSpace Tokenizer::leading_space() const { return state_->leading_space; }

std::optional<int32_t> Tokenizer::bos_id() const { return state_->bos; }

std::optional<int32_t> Tokenizer::eos_id() const { return state_->eos; }

std::string_view Tokenizer::bos_text() const { return state_->bos_text; }

std::string_view Tokenizer::eos_text() const { return state_->eos_text; }

bool Tokenizer::adds_bos() const { return state_->add_bos; }

const std::vector<int32_t>& Tokenizer::end_of_generation_ids() const {
  return state_->end_of_generation;
}

}  // namespace ashlar
