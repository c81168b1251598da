// tokenizer.json and tokenizer_config.json through the C interface of the Rust part, then a text
// there and back. Ids must stay inside the vocabulary, and what streams out token by token must be
// what decoding gives at once.
#include "fuzz/targets.h"
#include "text/chat_template.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace ashlar {

namespace {

constexpr std::string_view kText = " Ab  a<s>\xc3\xa9\xe2\x96\x81 12.\n\nb";
constexpr int kMostIds = 4096;

void there_and_back(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options) {
  const auto ids = tokenizer.encode(text, options);
  fuzz_check_foreseen(ids);
  if (!ids) return;
  Detokenizer stream(tokenizer);
  std::string streamed;
  for (const int32_t id : *ids) {
    CHECK_GE(id, 0);
    CHECK_LT(id, tokenizer.vocab_size());
    streamed += stream.push(id);
  }
  streamed += stream.flush();
  CHECK(is_valid_utf8(streamed));
  const auto whole = tokenizer.decode(*ids, true);
  fuzz_check_foreseen(whole);
  if (whole) CHECK(is_valid_utf8(*whole));
}

}  // namespace

void fuzz_tokenizer_json(std::string_view input) {
  const std::vector<std::string_view> parts = fuzz_parts(input, 3);
  const Result<Tokenizer> tokenizer = Tokenizer::from_json(parts[0], parts[1]);
  fuzz_check_foreseen(tokenizer);
  fuzz_check_foreseen(ChatTemplate::from_files(parts[1], ""));
  if (!tokenizer) return;
  there_and_back(*tokenizer, kText, {.add_special = true, .parse_special = true});
  there_and_back(*tokenizer, parts[2], {.add_special = false, .parse_special = false});
  for (int32_t id = 0; id < std::min(tokenizer->vocab_size(), kMostIds); ++id) {
    tokenizer->token_bytes(id);
    tokenizer->is_special(id);
  }
}

}  // namespace ashlar
