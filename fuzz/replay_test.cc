// Runs every stored input through its target, under the compiler and the sanitizers of the test
// suite: the corpus, and each input that once broke something. Whoever adds a target adds seeds.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/targets.h"
#include "testing/paths.h"

namespace ashlar {
namespace {

struct FuzzTarget {
  std::string_view name;  // also of its folders in corpus/ and crashes/
  void (*run)(std::string_view input);
};

constexpr FuzzTarget kTargets[] = {
    {"gguf", fuzz_gguf},
    {"safetensors", fuzz_safetensors},
    {"config", fuzz_config},
    {"tokenizer_json", fuzz_tokenizer_json},
    {"chat_template", fuzz_chat_template},
    {"http_body", fuzz_http_body},
};

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::exists(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// In memory of exactly the file's size, so that the address sanitizer sees a step beyond it.
std::vector<char> read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  bytes.shrink_to_fit();
  return bytes;
}

class FuzzReplay : public ::testing::TestWithParam<FuzzTarget> {};

TEST_P(FuzzReplay, StoredInputsAreSurvivedInTime) {
  const FuzzTarget& target = GetParam();
  const std::filesystem::path root = source_dir() / "fuzz";
  const auto seeds = files_in(root / "corpus" / target.name);
  EXPECT_FALSE(seeds.empty());
  std::vector<std::filesystem::path> files = seeds;
  const auto crashes = files_in(root / "crashes" / target.name);
  files.insert(files.end(), crashes.begin(), crashes.end());
  for (const auto& path : files) {
    SCOPED_TRACE(path.string());
    const std::vector<char> bytes = read(path);
    const auto start = std::chrono::steady_clock::now();
    target.run({bytes.data(), bytes.size()});
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  }
}

INSTANTIATE_TEST_SUITE_P(All, FuzzReplay, ::testing::ValuesIn(kTargets),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(FuzzParts, MissingPartsAreEmptyAndTheLastTakesTheRest) {
  const auto all = fuzz_parts(
      "a\x1e"
      "b\x1e"
      "c\x1e"
      "d",
      3);
  EXPECT_EQ(all, (std::vector<std::string_view>{"a", "b",
                                                "c\x1e"
                                                "d"}));
  EXPECT_EQ(fuzz_parts("", 2), (std::vector<std::string_view>{"", ""}));
  EXPECT_EQ(fuzz_parts("x", 2), (std::vector<std::string_view>{"x", ""}));
}

// An error that nobody foresaw must end the target, or the fuzzer would pass it by.
TEST(FuzzCheck, AnUnforeseenErrorIsAFinding) {
  const Result<int> refused = fail(ErrorCode::kCorrupt, "no");
  fuzz_check_foreseen(refused);
  const Result<int> surprised = fail(ErrorCode::kInternal, "what");
  EXPECT_DEATH(fuzz_check_foreseen(surprised), "foreseen.*what");
}

}  // namespace
}  // namespace ashlar
