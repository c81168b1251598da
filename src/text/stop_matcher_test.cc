// Stop strings over every split of multi-byte text: nothing of a stop leaks, nothing else is held
// for long.
#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace ashlar {
namespace {

StopMatcher matcher(std::vector<std::string> stops) {
  Result<StopMatcher> created = StopMatcher::create(std::move(stops));
  EXPECT_TRUE(created) << created.error().message;
  return *std::move(created);
}

struct Story {
  std::vector<std::string> stops;
  std::string text;
  std::string shown;
  std::optional<size_t> stop;
};

const std::vector<Story>& stories() {
  static const std::vector<Story> kStories = {
      {{}, "all passes", "all passes", std::nullopt},
      {{"stop"}, "no such word", "no such word", std::nullopt},
      {{"stop"}, "a stop here", "a ", 0},
      {{"stop"}, "ststop", "st", 0},
      {{"stop"}, "ends with sto", "ends with sto", std::nullopt},
      {{"\n\n"}, "one\ntwo\n\nthree", "one\ntwo", 0},
      {{"</s>", "<|im_end|>"}, "x<|im_end|>y</s>", "x", 1},
      {{"abcd", "bc"}, "xabcd", "xa", 1},  // bc ends first
      {{"bc", "abc"}, "xabcd", "x", 1},    // both end here: the longest
      {{"aab"}, "aaab", "a", 0},           // a false start inside the match
      {{"abab"}, "abaabab", "aba", 0},
      {{"終わり"}, "これで終わり。", "これで", 0},
      {{"終わり"}, "終わる終", "終わる終", std::nullopt},
      {{"🙂"}, "a🙃🙂", "a🙃", 0},  // differ in the last byte alone
      {{"é"}, "eé", "e", 0},
  };
  return kStories;
}

void expect_story(const Story& story, const std::vector<std::string>& parts) {
  StopMatcher stop = matcher(story.stops);
  std::string shown;
  for (const std::string& part : parts) {
    shown += stop.push(part);
    EXPECT_TRUE(story.shown.starts_with(shown)) << shown;
  }
  EXPECT_EQ(stop.stop_index(), story.stop) << story.text;
  if (!stop.stopped()) shown += stop.flush();
  EXPECT_EQ(shown, story.shown);
}

std::vector<std::string> code_points(const std::string& text) {
  std::vector<std::string> out;
  for (char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) out.emplace_back();
    out.back() += c;
  }
  return out;
}

TEST(StopMatcher, EverySplitOfEveryStory) {
  for (const Story& story : stories()) {
    expect_story(story, {story.text});
    expect_story(story, code_points(story.text));
    for (size_t first = 0; first <= story.text.size(); ++first) {
      for (size_t second = first; second <= story.text.size(); ++second) {
        expect_story(story, {story.text.substr(0, first), story.text.substr(first, second - first),
                             story.text.substr(second)});
      }
    }
  }
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBeAStop) {
  StopMatcher stop = matcher({"<end>", "ende"});
  EXPECT_EQ(stop.push("text <en"), "text ");
  EXPECT_EQ(stop.push("ter"), "<enter");
  EXPECT_EQ(stop.push(" e"), " ");
  EXPECT_EQ(stop.push("n"), "");
  EXPECT_EQ(stop.push("x"), "enx");
  EXPECT_EQ(stop.flush(), "");
}

TEST(StopMatcher, NothingPassesAfterAStop) {
  StopMatcher stop = matcher({"."});
  EXPECT_EQ(stop.push("one.two"), "one");
  EXPECT_EQ(stop.push("three"), "");
  EXPECT_EQ(stop.flush(), "");
}

TEST(StopMatcher, RefusesWhatCannotBeAStop) {
  EXPECT_EQ(StopMatcher::create({"a", ""}).error().message, "stop string 1 is empty");
  EXPECT_EQ(StopMatcher::create({"\xC3"}).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace ashlar
