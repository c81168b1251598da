// Text of an answer from tokens: split code points, stop strings however tokens cut them, nothing
// lost at the end.
#include "engine/output.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

// One token a byte, spelled as byte-level BPE does for the bytes used here; ids are positions in
// this list.
Tokenizer tokenizer() {
  // "a" "b" "c" " " and the three bytes of the euro sign, E2 82 AC.
  const char* json = R"({"version":"1.0","added_tokens":[
    {"id":7,"content":"<end>","special":true,"single_word":false,"lstrip":false,"rstrip":false,
     "normalized":false}],
    "normalizer":null,
    "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
    "post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
    "model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"Ġ":3,"â":4,"Ĥ":5,"¬":6},"merges":[]}})";
  Result<Tokenizer> result = Tokenizer::from_json(json, "");
  EXPECT_TRUE(result) << result.error().message;
  return *std::move(result);
}

std::string all(const std::vector<std::string>& stops, const std::vector<int32_t>& tokens,
                std::string* stop = nullptr) {
  const Tokenizer t = tokenizer();
  OutputText text = *OutputText::create(&t, stops);
  std::string out;
  for (int32_t token : tokens) {
    out += text.push(token);
    if (text.stopped()) break;
  }
  out += text.flush();
  if (stop != nullptr) *stop = text.stop_text();
  return out;
}

TEST(OutputText, HoldsACodePointUntilItIsWhole) {
  const Tokenizer t = tokenizer();
  OutputText text = *OutputText::create(&t, {});
  EXPECT_EQ(text.push(0), "a");
  EXPECT_EQ(text.push(4), "");
  EXPECT_EQ(text.push(5), "");
  EXPECT_EQ(text.push(6), "€");
  EXPECT_EQ(text.push(7), "") << "special tokens are not text";
  EXPECT_EQ(text.push(4), "");
  EXPECT_EQ(text.flush(), "\uFFFD") << "an unfinished code point is not lost";
}

TEST(OutputText, AStopStringIsNotShownAndEndsTheText) {
  std::string stop;
  EXPECT_EQ(all({"bc", "x"}, {0, 1, 2, 0}, &stop), "a");
  EXPECT_EQ(stop, "bc");
  EXPECT_EQ(all({"bca"}, {0, 1, 2, 1}, &stop), "abcb") << "a beginning of one is shown after all";
  EXPECT_EQ(stop, "");
  EXPECT_EQ(all({"bca"}, {0, 1, 2}), "abc") << "also at the end";
}

TEST(OutputText, WithoutATokenizerThereIsNoText) {
  OutputText text = *OutputText::create(nullptr, {});
  EXPECT_EQ(text.push(3), "");
  EXPECT_FALSE(OutputText::create(nullptr, {"x"}));
}

}  // namespace
}  // namespace ashlar
