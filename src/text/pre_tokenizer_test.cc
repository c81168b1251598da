// The splits of the named pre-tokenizers, through the C interface. The sums were computed from an
// independent description of the rules and checked against the regular expressions of the
// vocabularies' authors.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "text/rust_bridge.h"

namespace ashlar {
namespace {

std::vector<std::string> split(std::string_view name, const std::string& text) {
  RustBuffer ends, error;
  const Status status = rust_status(
      ashlar_pre_tokenize(rust_bytes(name), rust_bytes(text), ends.out(), error.out()), error);
  EXPECT_TRUE(status) << status.error().message;
  std::vector<std::string> out;
  size_t start = 0;
  for (uint32_t end : ends.array<uint32_t>()) {
    out.push_back(text.substr(start, end - start));
    start = end;
  }
  EXPECT_EQ(start, text.size()) << "nothing may be lost";
  return out;
}

uint32_t crc32(const std::string& bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

// Texts joined by NUL, the fragments of each by U+0001.
uint32_t split_sum(std::string_view name) {
  const std::vector<std::string> texts = {
      "Hello world's 12345  end",
      "a\n\n  b\t\tc 1 22 333 4444",
      "I'LL it'll don'T 'Sx",
      "x  =  42;\r\n\r\n  y!!\n\nz",
      "caf\u00e9 na\u00efve \u4eca\u5929 123\u00b2\u0663 \u00bd",
      "  lead and trail   ",
      "f(x)->y[0]+=$3.50 <a|b>~",
      "\u3000\u00a0mix\u2003ed\n \n",
      "...Hi,there\tTab 'quote' \"q\"",
      "e\u0301 \u0e01\u0e34 \U0001F642\U0001F643x 1\u20442",
      "",
      " ",
      "\n",
      "  \n",
      "1234567",
      "a 1\n2 b"};
  std::string joined;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) joined += '\0';
    const std::vector<std::string> parts = split(name, texts[i]);
    for (size_t j = 0; j < parts.size(); ++j) joined += (j > 0 ? "\1" : "") + parts[j];
  }
  return crc32(joined);
}

TEST(PreTokenizer, SplitsOfEveryRule) {
  EXPECT_EQ(split_sum("gpt-2"), 0x45c838b7u);
  EXPECT_EQ(split_sum("smollm"), 0xed64a7b6u);
  EXPECT_EQ(split_sum("qwen2"), 0x6e191e51u);
  EXPECT_EQ(split_sum("llama-bpe"), 0xb30c7f08u);
  EXPECT_EQ(split_sum("default"), 0x4470c615u);
}

TEST(PreTokenizer, OtherNamesOfARule) {
  EXPECT_EQ(split_sum(""), split_sum("default"));
  EXPECT_EQ(split_sum("starcoder"), split_sum("smollm"));
  EXPECT_EQ(split_sum("deepseek-r1-qwen"), split_sum("qwen2"));
  EXPECT_EQ(split_sum("llama3"), split_sum("llama-bpe"));
}

TEST(PreTokenizer, AnExampleToRead) {
  const std::string text = "I'll pay $12345 in 2 days!\n\n  ok";
  using Parts = std::vector<std::string>;
  EXPECT_EQ(split("gpt-2", text),
            (Parts{"I", "'ll", " pay", " $", "12345", " in", " 2", " days", "!", "\n\n ", " ok"}));
  EXPECT_EQ(split("llama-bpe", text), (Parts{"I", "'ll", " pay", " $", "123", "45", " in", " ", "2",
                                             " days", "!\n\n", " ", " ok"}));
}

}  // namespace
}  // namespace ashlar
