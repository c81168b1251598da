// Plays every story in tests/scenario/*.txt, and shows that planted bugs make the stories that are
// about them fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "testing/paths.h"
#include "testing/scenario.h"

namespace ashlar {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::vector<std::filesystem::path> stories() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() / "tests" / "scenario")) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string story(std::string_view name) {
  return read(source_dir() / "tests" / "scenario" / name);
}

TEST(Scenario, EveryStoryIsTrue) {
  const auto paths = stories();
  EXPECT_GE(paths.size(), 30u);
  for (const auto& path : paths) {
    EXPECT_EQ(Scenario().play(read(path)), "") << path.filename();
  }
}

// The gate itself: a token read from a copy that the host had at launch is one step old at depth
// two.
TEST(Scenario, AStaleTokenIsNoticedAtDepthTwo) {
  const auto plant = [](FakeRunnerOptions& options) { options.plant_stale_token = true; };
  const std::string found = Scenario(plant).play(story("two_steps_in_flight.txt"));
  EXPECT_NE(found.find("the row at"), std::string::npos) << found;
  EXPECT_NE(found.find("instead of"), std::string::npos) << found;
}

TEST(Scenario, AnEagerFoldIsNoticed) {
  const auto plant = [](FakeRunnerOptions& options) { options.plant_eager_fold = true; };
  const std::string found = Scenario(plant).play(story("chunk_rollback.txt"));
  EXPECT_NE(found.find("was folded"), std::string::npos) << found;
}

TEST(Scenario, AWrongLineIsNoticed) {
  EXPECT_NE(Scenario().play("options pages=4\nsubmit a prompt=3 max=2\nplan\n> nothing\n"), "");
  EXPECT_NE(Scenario().play("options pages=4\nexpect pages_free=3\n"), "");
}

}  // namespace
}  // namespace ashlar
