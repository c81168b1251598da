// Streams of bytes against what Python's decoder makes of them, at every split.
#include "text/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ashlar {
namespace {

const std::string kReplacement = "\uFFFD";

std::string whole(std::string_view bytes) {
  Utf8Stream stream;
  std::string out;
  stream.push(bytes, out);
  stream.flush(out);
  return out;
}

// Expected values are Python's bytes.decode("utf-8", "replace").
TEST(Utf8, ReplacesMaximalParts) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", ""},
      {"a", "a"},
      {"\xC3\xA9", "é"},
      {"\xE4\xBD\xA0", "你"},
      {"\xF0\x9F\x99\x82", "🙂"},
      {"\x80", kReplacement},
      {"\xC0\x80", kReplacement + kReplacement},  // overlong
      {"\xC3", kReplacement},
      {"\xC3(", kReplacement + "("},
      {"\xE4\xBD", kReplacement},  // one for the part
      {"\xE4\xBD"
       "a",
       kReplacement + "a"},
      {"\xED\xA0\x80", kReplacement + kReplacement + kReplacement},  // a surrogate
      {"\xE0\x9F\xBF", kReplacement + kReplacement + kReplacement},  // overlong
      {"\xF0\x9F\x99", kReplacement},
      {"\xF4\x90\x80\x80",
       kReplacement + kReplacement + kReplacement + kReplacement},  // past U+10FFFF
      {"\xF5\xFF", kReplacement + kReplacement},
      {"a\xF0\x9F\xC3\xA9", "a" + kReplacement + "é"},
  };
  for (const auto& [bytes, text] : cases)
    EXPECT_EQ(whole(bytes), text) << testing::PrintToString(bytes);
}

TEST(Utf8, EverySplitGivesTheSameAndOnlyWholeCodePoints) {
  const std::string bytes = "aé你🙂\xF0\x9F\xE4\xBD\xA0\xFFz\xC3";
  const std::string expected = whole(bytes);
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second = first; second <= bytes.size(); ++second) {
      Utf8Stream stream;
      std::string joined;
      for (const std::string& part :
           {bytes.substr(0, first), bytes.substr(first, second - first), bytes.substr(second)}) {
        std::string out;
        stream.push(part, out);
        EXPECT_TRUE(is_valid_utf8(out)) << first << " " << second;
        joined += out;
      }
      stream.flush(joined);
      EXPECT_EQ(joined, expected) << first << " " << second;
    }
  }
}

TEST(Utf8, Validity) {
  EXPECT_TRUE(is_valid_utf8("aé你🙂"));
  EXPECT_TRUE(is_valid_utf8(std::string_view("\0", 1)));
  EXPECT_FALSE(is_valid_utf8("\xE4\xBD"));
  EXPECT_FALSE(is_valid_utf8("a\xED\xA0\x80"));
}

}  // namespace
}  // namespace ashlar
