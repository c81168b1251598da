// The generated tokenizer of synthetic models: it loads, every text comes back, and its ids are
// those that transformers gives from the exported files (tests/golden/synthetic/tokens.json).
#include "checkpoint/synthetic_tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/paths.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ashlar {
namespace {

Tokenizer make(int64_t tokens) {
  auto tokenizer =
      Tokenizer::from_json(synthetic_tokenizer_json(tokens), synthetic_tokenizer_config_json(1024));
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  return std::move(*tokenizer);
}

TEST(SyntheticTokenizer, EveryTextComesBack) {
  std::string ascii, mixed = "Grüße, 石の上に 😀!\r\n\t";
  for (char c = 0x20; c < 0x7f; ++c) ascii += c;
  const std::string texts[] = {"",
                               " ",
                               "  two  spaces ",
                               ascii,
                               mixed,
                               "hello",
                               std::string("a\0b", 3),
                               "The quick brown fox jumps over the lazy dog. <|eos|> it's 12345"};
  for (const int64_t tokens : {kMinSyntheticTokens, int64_t{261}, int64_t{4096}, int64_t{151669}}) {
    const Tokenizer tokenizer = make(tokens);
    EXPECT_EQ(tokenizer.vocab_size(), tokens);
    for (const std::string& text : texts) {
      const auto ids = tokenizer.encode(text);
      ASSERT_TRUE(ids.has_value());
      EXPECT_EQ(tokenizer.decode(*ids, false).value(), text) << tokens;
    }
  }
}

TEST(SyntheticTokenizer, HasTheWidthAskedFor) {
  for (const int64_t tokens :
       {int64_t{262}, int64_t{961}, int64_t{962}, int64_t{963}, int64_t{262145}}) {
    const auto json = nlohmann::json::parse(synthetic_tokenizer_json(tokens));
    EXPECT_EQ(static_cast<int64_t>(json["model"]["vocab"].size()), tokens);  // so no text twice
    EXPECT_EQ(static_cast<int64_t>(json["model"]["merges"].size()), tokens - kMinSyntheticTokens);
  }
}

TEST(SyntheticTokenizer, IdsAreThoseOfTransformers) {
  std::ifstream file(source_dir() / "tests/golden/synthetic/tokens.json");
  const auto golden = nlohmann::json::parse(file);
  const Tokenizer tokenizer = make(golden["tokens"]);
  ASSERT_GT(golden["cases"].size(), 100u);
  for (const auto& item : golden["cases"]) {
    const auto ids = tokenizer.encode(item["text"].get<std::string>());
    ASSERT_TRUE(ids.has_value()) << ids.error().message;
    EXPECT_EQ(*ids, item["ids"].get<std::vector<int32_t>>()) << item["text"];
  }
}

TEST(SyntheticTokenizer, SpecialTokensAndTemplate) {
  const Tokenizer tokenizer = make(4096);
  EXPECT_EQ(tokenizer.bos_id(), kSyntheticBos);
  EXPECT_EQ(tokenizer.eos_id(), kSyntheticEos);
  EXPECT_FALSE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.end_of_generation_ids(),
            (std::vector<int32_t>{kSyntheticEos, kSyntheticImEnd}));
  EXPECT_EQ(tokenizer.encode("<|im_start|>", {.add_special = true, .parse_special = true}).value(),
            std::vector<int32_t>{kSyntheticImStart});
  const auto chat =
      ChatTemplate::from_files(synthetic_tokenizer_config_json(1024), "").value().value();
  ChatInput input;
  input.messages_json = R"([{"role": "user", "content": "hello"}])";
  input.bos_token = "<|bos|>";
  EXPECT_EQ(chat.render(input).value(),
            "<|bos|><|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n");
}

}  // namespace
}  // namespace ashlar
