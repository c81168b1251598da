// Token ids of three real vocabularies against their references: llama.cpp for SmolLM2 and Gemma 3
// (GGUF), the crate tokenizers for Qwen3 (tokenizer.json). Also: decoding gives the text back,
// streamed or not, and loading is quick.
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/gguf.h"
#include "testing/paths.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace ashlar {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

nlohmann::json golden(const std::string& name) {
  return nlohmann::json::parse(read_file(source_dir() / "tests/golden/text" / name));
}

Result<Tokenizer> gguf_tokenizer(const std::filesystem::path& path) {
  ASHLAR_ASSIGN(const GgufFile file, GgufFile::open(path.string()));
  ASHLAR_ASSIGN(const GgufVocabulary vocabulary, read_gguf_vocabulary(file));
  return Tokenizer::from_gguf(vocabulary);
}

Result<Tokenizer> qwen3_tokenizer() {
  return Tokenizer::from_json(read_file(qwen3_tokenizer_dir() / "tokenizer.json"),
                              read_file(qwen3_tokenizer_dir() / "tokenizer_config.json"));
}

// Compares every case of a list; returns how many were compared.
size_t expect_ids(const Tokenizer& tokenizer, const nlohmann::json& cases) {
  size_t wrong = 0;
  for (const nlohmann::json& item : cases) {
    const std::string text = item["text"];
    const Result<std::vector<int32_t>> ids = tokenizer.encode(
        text, {.add_special = item["add_special"], .parse_special = item["parse_special"]});
    EXPECT_TRUE(ids) << ids.error().message;
    if (ids && *ids == item["ids"].get<std::vector<int32_t>>()) continue;
    if (++wrong <= 10) {
      ADD_FAILURE() << item.dump() << "\n  gives "
                    << (ids ? nlohmann::json(*ids).dump() : ids.error().message);
    }
  }
  EXPECT_EQ(wrong, 0u) << "of " << cases.size();
  return cases.size();
}

// What was encoded comes back, streamed in one piece or id by id. Special tokens are kept where
// they were parsed.
void expect_round_trip(const Tokenizer& tokenizer, const nlohmann::json& cases) {
  for (const nlohmann::json& item : cases) {
    const std::string text = item["text"];
    const auto ids =
        tokenizer.encode(text, {.add_special = false, .parse_special = item["parse_special"]});
    ASSERT_TRUE(ids) << ids.error().message;
    const Result<std::string> back = tokenizer.decode(*ids, false);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(*back, text);
    Detokenizer stream(tokenizer, {.skip_special = false, .at_start = true});
    std::string streamed;
    for (int32_t id : *ids) streamed += stream.push(id);
    streamed += stream.flush();
    EXPECT_EQ(streamed, text);
  }
}

TEST(RealModelTokens, SmolLm2) {
  if (!std::filesystem::exists(smollm2_path())) GTEST_SKIP() << "not fetched: " << smollm2_path();
  const Result<Tokenizer> tokenizer = gguf_tokenizer(smollm2_path());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->vocab_size(), 49152);
  EXPECT_FALSE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->bos_text(), "<|im_start|>");
  EXPECT_EQ(tokenizer->end_of_generation_ids(), (std::vector<int32_t>{0, 2}));
  const nlohmann::json file = golden("tokens_smollm2.json");
  EXPECT_GE(expect_ids(*tokenizer, file["cases"]), 1000u);
  expect_ids(*tokenizer, file["u2581_cases"]);
  expect_round_trip(*tokenizer, file["cases"]);
}

TEST(RealModelTokens, Gemma3) {
  if (!std::filesystem::exists(gemma3_path())) GTEST_SKIP() << "not fetched: " << gemma3_path();
  const Result<Tokenizer> tokenizer = gguf_tokenizer(gemma3_path());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->vocab_size(), 262144);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->end_of_generation_ids(), (std::vector<int32_t>{1, 106}));
  const nlohmann::json file = golden("tokens_gemma3.json");
  EXPECT_GE(expect_ids(*tokenizer, file["cases"]), 1000u);
  expect_ids(*tokenizer, file["u2581_cases"]);
  expect_round_trip(*tokenizer, file["cases"]);
}

TEST(RealModelTokens, Qwen3) {
  if (!std::filesystem::exists(qwen3_tokenizer_dir() / "tokenizer.json")) {
    GTEST_SKIP() << "not fetched: " << qwen3_tokenizer_dir();
  }
  const Result<Tokenizer> tokenizer = qwen3_tokenizer();
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->vocab_size(), 151669);
  EXPECT_EQ(tokenizer->eos_text(), "<|im_end|>");
  EXPECT_FALSE(tokenizer->bos_id().has_value());
  EXPECT_EQ(tokenizer->end_of_generation_ids(), (std::vector<int32_t>{151643, 151645}));
  const nlohmann::json file = golden("tokens_qwen3.json");
  EXPECT_GE(expect_ids(*tokenizer, file["cases"]), 1000u);
  expect_ids(*tokenizer, file["u2581_cases"]);
}

// A prompt must not wait for its vocabulary. Processor time, so that a busy machine does not fail
// the test; the limits are several times what was measured (0.09 s and 0.07 s).
TEST(RealModelTokens, LoadTime) {
  if (!std::filesystem::exists(smollm2_path())) GTEST_SKIP() << "not fetched: " << smollm2_path();
  if (!std::filesystem::exists(gemma3_path())) GTEST_SKIP() << "not fetched: " << gemma3_path();
  const auto seconds = [](const std::filesystem::path& path) {
    const std::clock_t start = std::clock();
    EXPECT_TRUE(gguf_tokenizer(path));
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  EXPECT_LT(seconds(smollm2_path()), 0.5);
  EXPECT_LT(seconds(gemma3_path()), 0.5);
}

}  // namespace
}  // namespace ashlar
