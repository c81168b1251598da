// Streams of ids to text: no half code points, none lost, spaces at the start, special tokens.
#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/test_vocabulary.h"

namespace ashlar {
namespace {

using Ids = std::vector<int32_t>;
constexpr int32_t kByte = 3;  // the id of byte token 0
constexpr int32_t kFirst = 259;

Tokenizer words() {
  TestVocabulary out = sentencepiece_vocabulary();
  out.add("\u2581the")
      .add("\u2581")
      .add("re")
      .add("<x>", 3)
      .add("日本")
      .add("[u]", 4)
      .add("[PAD]", 5);
  return *Tokenizer::from_gguf(out.view("llama"));
}

std::string streamed(const Tokenizer& tokenizer, const Ids& ids, DetokenizeOptions options = {}) {
  Detokenizer stream(tokenizer, options);
  std::string out;
  for (int32_t id : ids) {
    const std::string part = stream.push(id);
    EXPECT_TRUE(is_valid_utf8(part));
    out += part;
  }
  return out + stream.flush();
}

TEST(Detokenizer, HoldsBytesUntilTheyAreACodePoint) {
  Detokenizer stream(words());
  EXPECT_EQ(stream.push(kByte + 0xF0), "");
  EXPECT_EQ(stream.push(kByte + 0x9F), "");
  EXPECT_EQ(stream.push(kByte + 0x99), "");
  EXPECT_EQ(stream.push(kByte + 0x82), "🙂");
  EXPECT_EQ(stream.push(kByte + 'a'), "a");
  EXPECT_EQ(stream.push(kByte + 0xE4), "");
  EXPECT_EQ(stream.push(kFirst + 2), "\uFFFDre");  // the byte can no longer become one
  EXPECT_EQ(stream.push(kByte + 0xC3), "");
  EXPECT_EQ(stream.flush(), "\uFFFD");
  EXPECT_EQ(stream.push(kFirst), "the");  // as new: the first space is dropped again
}

TEST(Detokenizer, LeadingSpaceOfTheTextAndOfAContinuation) {
  const Tokenizer tokenizer = words();
  const Ids ids = {1, kFirst, kFirst + 2, kFirst + 1, kFirst};
  EXPECT_EQ(streamed(tokenizer, ids), "there  the");
  EXPECT_EQ(streamed(tokenizer, ids, {.skip_special = true, .at_start = false}), " there  the");
  EXPECT_EQ(streamed(tokenizer, ids, {.skip_special = false, .at_start = true}), "<s> there  the");
  EXPECT_EQ(streamed(tokenizer, {kFirst + 1, kFirst + 1}), " ");  // one space alone is dropped
}

TEST(Detokenizer, SpecialUserDefinedAndUnusedTokens) {
  const Tokenizer tokenizer = words();
  const Ids ids = {kFirst + 2, kFirst + 3, kFirst + 5, kFirst + 6, kFirst + 4, 0};
  EXPECT_EQ(streamed(tokenizer, ids), "re[u]日本");
  EXPECT_EQ(streamed(tokenizer, ids, {.skip_special = false, .at_start = true}),
            "re<x>[u]日本<unk>");
  EXPECT_EQ(streamed(tokenizer, {kFirst + 2, -7, 1 << 30}), "re");  // no such id, no text
}

TEST(Detokenizer, EqualsDecodeForEveryPairOfIds) {
  const Tokenizer tokenizer = words();
  for (int32_t first = 0; first < tokenizer.vocab_size(); ++first) {
    for (int32_t second = 0; second < tokenizer.vocab_size(); second += 7) {
      const Ids ids = {first, second};
      EXPECT_EQ(streamed(tokenizer, ids), *tokenizer.decode(ids, true));
    }
  }
}

TEST(Detokenizer, ByteLettersSplitWithinACodePoint) {
  // "你" is E4 BD A0: the letters ä, ½, ł. One token ends inside it.
  TestVocabulary letters = byte_level_vocabulary();
  letters.add("ä").add("½").add("ł").add("\u0120ä½").merge("ä ½").add("ä½");
  const Tokenizer tokenizer = *Tokenizer::from_gguf(letters.view("gpt2", "gpt-2"));
  Detokenizer stream(tokenizer);
  EXPECT_EQ(stream.push(40), " ");
  EXPECT_EQ(stream.push(39), "你");
  EXPECT_EQ(stream.push(38), "\uFFFD");  // a continuation without a start
  EXPECT_EQ(stream.flush(), "");
}

}  // namespace
}  // namespace ashlar
