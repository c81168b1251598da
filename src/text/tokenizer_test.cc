// Tokenizers from small GGUF vocabularies written by hand: both models, their defaults, and hostile
// ones.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "testing/test_vocabulary.h"

namespace ashlar {
namespace {

using Ids = std::vector<int32_t>;

Tokenizer make(const GgufVocabulary& vocabulary) {
  Result<Tokenizer> tokenizer = Tokenizer::from_gguf(vocabulary);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return *tokenizer;
}

Ids encode(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options) {
  Result<Ids> ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids) << ids.error().message;
  return ids ? *ids : Ids{};
}

constexpr EncodeOptions kPlain = {.add_special = false, .parse_special = false};
constexpr EncodeOptions kParse = {.add_special = false, .parse_special = true};
constexpr int32_t kFirst = 259;  // the first id that a test adds to sentencepiece_vocabulary()
constexpr int32_t kByte = 3;     // the id of byte token 0

// "▁", "a", "b", "ab", "ba", "▁a": the score decides, not the length or the order.
TEST(ScoreVocabulary, HighestScoreMergesFirstLeftmostOnTies) {
  TestVocabulary words = sentencepiece_vocabulary();
  words.add("\u2581").add("a").add("b").add("ab", 1, -1).add("ba", 1, -0.5).add("aa", 1, -2);
  GgufVocabulary view = words.view("llama");
  view.add_space_prefix = false;
  const Tokenizer tokenizer = make(view);
  EXPECT_EQ(encode(tokenizer, "aba", kPlain), (Ids{kFirst + 1, kFirst + 4}));  // a ba
  EXPECT_EQ(encode(tokenizer, "abb", kPlain), (Ids{kFirst + 3, kFirst + 2}));  // ab b
  EXPECT_EQ(encode(tokenizer, "aaa", kPlain), (Ids{kFirst + 5, kFirst + 1}));  // aa a
  EXPECT_EQ(encode(tokenizer, "a b", kPlain), (Ids{kFirst + 1, kFirst, kFirst + 2}));
}

TEST(ScoreVocabulary, UnknownCharactersBecomeBytes) {
  const Tokenizer tokenizer = make(sentencepiece_vocabulary().view("llama"));
  EXPECT_EQ(encode(tokenizer, "é", kPlain),
            (Ids{kByte + 0xE2, kByte + 0x96, kByte + 0x81, kByte + 0xC3, kByte + 0xA9}));
  const Result<std::string> back = tokenizer.decode(Ids{kByte + 0xC3, kByte + 0xA9}, true);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, "é");
}

TEST(ScoreVocabulary, SpacePrefixAtTheStartAndAfterSpecialTokens) {
  TestVocabulary words = sentencepiece_vocabulary();
  words.add("\u2581").add("a").add("<x>", 3).add("[u]", 4);
  const int32_t space = kFirst, a = kFirst + 1, x = kFirst + 2, u = kFirst + 3;
  GgufVocabulary view = words.view("llama");
  const Tokenizer prefixed = make(view);
  EXPECT_EQ(encode(prefixed, "a", {}), (Ids{1, space, a}));  // BOS is added by default
  EXPECT_EQ(encode(prefixed, "a<x>a", kParse), (Ids{space, a, x, space, a}));
  EXPECT_EQ(encode(prefixed, "a[u]a", kPlain), (Ids{space, a, u, space, a}));
  EXPECT_EQ(encode(prefixed, "", kPlain), Ids{});
  EXPECT_EQ(encode(prefixed, "", {}), Ids{1});
  view.add_space_prefix = false;
  view.add_bos = false;
  view.add_eos = true;
  const Tokenizer plain = make(view);
  EXPECT_EQ(encode(plain, "a<x>a", {.add_special = true, .parse_special = true}),
            (Ids{a, x, a, 2}));
  // Without special parsing the control token is ordinary text, made of bytes here.
  EXPECT_EQ(encode(plain, "<x>", kPlain), (Ids{kByte + '<', kByte + 'x', kByte + '>'}));
}

TEST(ScoreVocabulary, UserDefinedTokensMatchLongestFirst) {
  TestVocabulary words = sentencepiece_vocabulary();
  words.add("\n", 4).add("\n\n", 4).add("\n\n\n", 4).add("  ", 4);
  GgufVocabulary view = words.view("llama");
  view.add_space_prefix = false;
  const Tokenizer tokenizer = make(view);
  EXPECT_EQ(encode(tokenizer, "\n\n\n\n\n  ", kPlain), (Ids{kFirst + 2, kFirst + 1, kFirst + 3}));
}

TEST(ByteLevelVocabulary, LowestRankMergesFirst) {
  TestVocabulary words = byte_level_vocabulary();
  words.add("ab").add("bc").add("abc").add("\u0120a");
  words.merge("b c").merge("a b").merge("a bc").merge("\u0120 a");
  const Tokenizer tokenizer = make(words.view("gpt2", "gpt-2"));
  EXPECT_EQ(encode(tokenizer, "abc", kPlain), Ids{39});
  EXPECT_EQ(encode(tokenizer, "ab", kPlain), Ids{37});
  EXPECT_EQ(encode(tokenizer, "b a", kPlain), (Ids{1, 40}));
  EXPECT_FALSE(tokenizer.adds_bos());
  EXPECT_EQ(*tokenizer.decode(Ids{1, 40, 39}, true), "b aabc");
}

// The piece is a token but its merges do not lead there: only the whole-word shortcut finds it.
TEST(ByteLevelVocabulary, WholeWordShortcutOfLlama3) {
  TestVocabulary words = byte_level_vocabulary();
  words.add("cab").add("ab").merge("a b");
  EXPECT_EQ(encode(make(words.view("gpt2", "gpt-2")), "cab", kPlain), (Ids{2, 38}));
  const Tokenizer tokenizer = make(words.view("gpt2", "llama-bpe"));
  EXPECT_EQ(encode(tokenizer, "cab", kPlain), Ids{37});
  EXPECT_TRUE(tokenizer.adds_bos());
}

TEST(ByteLevelVocabulary, UnknownPreTokenizerIsRefusedByName) {
  TestVocabulary words = byte_level_vocabulary();
  words.add("ab").merge("a b");
  const Result<Tokenizer> refused = Tokenizer::from_gguf(words.view("gpt2", "no-such-name"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(refused.error().message.find("no-such-name"), std::string::npos);
}

TEST(Vocabulary, EndOfGenerationBySpellingOfSpecialTokens) {
  TestVocabulary words = sentencepiece_vocabulary();
  words.add("<end_of_turn>", 3).add("<|im_end|>", 1).add("<eot>", 3);
  GgufVocabulary view = words.view("llama");
  view.eot_id = kFirst + 2;
  const Tokenizer tokenizer = make(view);
  EXPECT_EQ(tokenizer.end_of_generation_ids(), (Ids{2, kFirst, kFirst + 2}));
  EXPECT_TRUE(tokenizer.is_special(kFirst));
  EXPECT_FALSE(tokenizer.is_special(kFirst + 1));
  EXPECT_EQ(tokenizer.bos_text(), "<s>");
}

TEST(Vocabulary, PaddingAtTheEndIsNotDecodable) {
  TestVocabulary words = sentencepiece_vocabulary();
  words.add("a").add("[PAD0]", 5).add("b").add("[PAD1]", 5).add("[PAD2]", 5);
  const Tokenizer tokenizer = make(words.view("llama"));
  EXPECT_EQ(tokenizer.vocab_size(), kFirst + 3);
  EXPECT_EQ(tokenizer.token_bytes(kFirst + 1), "");
  EXPECT_EQ(tokenizer.token_to_id("b"), kFirst + 2);
  EXPECT_EQ(tokenizer.token_to_id("absent"), std::nullopt);
  EXPECT_EQ(tokenizer.decode(Ids{kFirst + 3}, true).error().code, ErrorCode::kOutOfRange);
  EXPECT_EQ(tokenizer.decode(Ids{-1}, true).error().code, ErrorCode::kOutOfRange);
}

TEST(Vocabulary, HostileOnesAreErrors) {
  const auto refuses = [](const GgufVocabulary& vocabulary, std::string_view part) {
    const Result<Tokenizer> refused = Tokenizer::from_gguf(vocabulary);
    ASSERT_FALSE(refused) << part;
    EXPECT_NE(refused.error().code, ErrorCode::kInternal) << refused.error().message;
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  };
  TestVocabulary twice = sentencepiece_vocabulary();
  twice.add("a").add("a");
  refuses(twice.view("llama"), "tokens 259 and 260 are both \"a\"");
  TestVocabulary bytes = sentencepiece_vocabulary();
  bytes.add("\xC3(");
  refuses(bytes.view("llama"), "token 259 is not valid UTF-8");
  TestVocabulary odd_type = sentencepiece_vocabulary();
  odd_type.add("a", 9);
  refuses(odd_type.view("llama"), "token 259 has the unknown type 9");
  TestVocabulary not_a_number = sentencepiece_vocabulary();
  not_a_number.add("a", 1, std::numeric_limits<float>::quiet_NaN());
  refuses(not_a_number.view("llama"), "token 259");
  TestVocabulary merges = byte_level_vocabulary();
  merges.merge("a b");
  refuses(merges.view("gpt2", "gpt-2"), "ab");  // the merged token is missing
  merges = byte_level_vocabulary();
  merges.add("ab").merge("ab");
  refuses(merges.view("gpt2", "gpt-2"), "has no two parts");
  merges = byte_level_vocabulary();
  merges.add("ab").merge("a ");
  refuses(merges.view("gpt2", "gpt-2"), "has no two parts");
  merges = byte_level_vocabulary();
  merges.add("a").merge("a a");
  refuses(merges.view("gpt2", "gpt-2"), "are both \"a\"");
  TestVocabulary words = sentencepiece_vocabulary();
  GgufVocabulary view = words.view("llama");
  view.bos_id = 259;
  refuses(view, "the BOS id 259");
  view = words.view("llama");
  view.eot_id = -1;
  refuses(view, "the end-of-turn id -1");
  view = words.view("llama");
  view.scores.pop_back();
  refuses(view, "258 scores for 259 tokens");
  view = words.view("llama");
  view.types.pop_back();
  refuses(view, "258 token types for 259 tokens");
  view = words.view("wordpiece");
  refuses(view, "wordpiece");
  view = words.view("llama");
  view.tokens = view.tokens.subspan(0, 2);
  view.types.resize(2);
  view.scores.resize(2);
  view.unknown_id.reset();
  EXPECT_TRUE(Tokenizer::from_gguf(view));  // no byte tokens, but the default unknown token
  view.tokens = {};
  view.types.clear();
  view.scores.clear();
  refuses(view, "no tokens");
}

TEST(Tokenizer, TextMustBeUtf8) {
  const Tokenizer tokenizer = make(sentencepiece_vocabulary().view("llama"));
  const Result<Ids> refused = tokenizer.encode("ab\xFF");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().message, "the text is not valid UTF-8 at byte 2");
}

TEST(Tokenizer, ThreadsShareOne) {
  TestVocabulary words = byte_level_vocabulary();
  words.add("ab").add("abc").merge("a b").merge("ab c");
  const Tokenizer tokenizer = make(words.view("gpt2", "qwen2"));
  std::string text;
  for (int i = 0; i < 500; ++i) text += i % 3 == 0 ? "abc 12" : "ab c";
  const Ids expected = encode(tokenizer, text, kPlain);
  std::vector<std::thread> threads;
  std::vector<int> equal(4, 0);
  for (size_t t = 0; t < equal.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) equal[t] += encode(tokenizer, text, kPlain) == expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, std::vector<int>(4, 20));
}

}  // namespace
}  // namespace ashlar
