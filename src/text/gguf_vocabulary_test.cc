// Reading tokenizer keys from GGUF files written in memory.
#include "text/gguf_vocabulary.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "testing/gguf_writer.h"

namespace ashlar {
namespace {

const std::vector<std::string> kTokens = {"<unk>", "a", "b", "ab"};

GgufWriter writer() {
  GgufWriter out;
  out.set_string("tokenizer.ggml.model", "gpt2");
  out.set_string("tokenizer.ggml.pre", "qwen2");
  out.set_strings("tokenizer.ggml.tokens", kTokens);
  return out;
}

TEST(GgufVocabulary, ReadsWhatIsThereAndLeavesTheRestOpen) {
  GgufWriter out = writer();
  out.set_strings("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
  out.set_i32s("tokenizer.ggml.token_type", std::vector<int32_t>{2, 1, 1, 1});
  out.set_f32s("tokenizer.ggml.scores", std::vector<float>{0, -1, -2, -3});
  out.set_u64("tokenizer.ggml.eos_token_id", 3);
  out.set_i32("tokenizer.ggml.bos_token_id", 1);
  out.set_bool("tokenizer.ggml.add_bos_token", false);
  out.set_string("tokenizer.chat_template", "plain");
  out.set_strings("tokenizer.chat_templates", std::vector<std::string>{"tool_use"});
  out.set_string("tokenizer.chat_template.tool_use", "tools");
  const std::vector<std::byte> bytes = out.build();
  const Result<GgufFile> file = GgufFile::parse(bytes, "test");
  ASSERT_TRUE(file) << file.error().message;
  const Result<GgufVocabulary> vocabulary = read_gguf_vocabulary(*file);
  ASSERT_TRUE(vocabulary) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->model, "gpt2");
  EXPECT_EQ(vocabulary->pre, "qwen2");
  EXPECT_EQ(std::vector<std::string>(vocabulary->tokens.begin(), vocabulary->tokens.end()),
            kTokens);
  ASSERT_EQ(vocabulary->merges.size(), 1u);
  EXPECT_EQ(vocabulary->merges[0], "a b");
  EXPECT_EQ(vocabulary->types, (std::vector<int32_t>{2, 1, 1, 1}));
  EXPECT_EQ(vocabulary->scores, (std::vector<float>{0, -1, -2, -3}));
  EXPECT_EQ(vocabulary->eos_id, 3);
  EXPECT_EQ(vocabulary->bos_id, 1);
  EXPECT_EQ(vocabulary->unknown_id, std::nullopt);
  EXPECT_EQ(vocabulary->add_bos, false);
  EXPECT_EQ(vocabulary->add_eos, std::nullopt);
  ASSERT_EQ(vocabulary->chat_templates.size(), 2u);
  EXPECT_EQ(vocabulary->chat_templates[0].first, "default");
  EXPECT_EQ(vocabulary->chat_templates[1].second, "tools");
}

TEST(GgufVocabulary, RefusesWrongKindsByKey) {
  const auto refuses = [](GgufWriter out, std::string_view key) {
    const std::vector<std::byte> bytes = out.build();
    const Result<GgufFile> file = GgufFile::parse(bytes, "test");
    ASSERT_TRUE(file) << file.error().message;
    const Result<GgufVocabulary> refused = read_gguf_vocabulary(*file);
    ASSERT_FALSE(refused) << key;
    EXPECT_NE(refused.error().message.find(key), std::string::npos) << refused.error().message;
  };
  GgufWriter merges = writer();
  merges.set_string("tokenizer.ggml.merges", "a b");
  refuses(merges, "tokenizer.ggml.merges");
  GgufWriter id = writer();
  id.set_string("tokenizer.ggml.bos_token_id", "1");
  refuses(id, "tokenizer.ggml.bos_token_id");
  GgufWriter flag = writer();
  flag.set_string("tokenizer.ggml.add_bos_token", "yes");
  refuses(flag, "tokenizer.ggml.add_bos_token");
  GgufWriter types = writer();
  types.set_i32s("tokenizer.ggml.token_type", std::vector<int32_t>{1, 1, 1, 7});
  refuses(types, "tokenizer.ggml.token_type holds 7");
  GgufWriter scores = writer();
  scores.set_strings("tokenizer.ggml.scores", kTokens);
  refuses(scores, "tokenizer.ggml.scores");
  refuses(GgufWriter(), "no vocabulary");
}

}  // namespace
}  // namespace ashlar
