// Every truncation of a small GGUF file is an error, and every changed byte gives either an error
// or a file whose parts all lie inside it. The configuration is built from each file that still
// parses, since it reads the metadata.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/gguf.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_names.h"
#include "testing/gguf_writer.h"
#include "testing/mutations.h"

namespace ashlar {
namespace {

// A file with every kind of value and tensors of several block sizes.
std::vector<std::byte> varied_file() {
  GgufWriter writer;
  writer.set_string("general.architecture", "gemma3");
  writer.set_u32("gemma3.block_count", 1);
  writer.set_u64("gemma3.embedding_length", 32);
  writer.set_i32("gemma3.attention.head_count", 2);
  writer.set_u32("gemma3.attention.key_length", 16);
  writer.set_f32("gemma3.rope.freq_base", 1e6f);
  writer.set_string("gemma3.rope.scaling.type", "yarn");
  writer.set_f32("gemma3.rope.scaling.factor", 8.0f);
  writer.set_i32s("gemma3.feed_forward_length", std::vector<int32_t>{64});
  writer.set_bools("gemma3.attention.sliding_window_pattern", {true});
  writer.set_alignment(64);
  writer.set_bool("tokenizer.ggml.add_bos_token", true);
  writer.set_strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "", "ccc"});
  writer.set_f32s("tokenizer.ggml.scores", std::vector<float>{0.0f, -1.0f, -2.0f});
  const std::vector<float> ones(32, 1.0f);
  const std::vector<std::byte> block(34 * 2);
  writer.add_f32("token_embd.weight", {1, 32}, ones);
  writer.add_tensor("blk.0.attn_q.weight", StorageType::kQ8_0, std::vector<int64_t>{2, 32}, block);
  writer.add_f32("output_norm.weight", {32}, ones);
  return writer.build();
}

// Reads all that a parsed file offers; the guard page behind the bytes makes a stray read a crash.
void visit_everything(const GgufFile& file, std::span<const std::byte> bytes) {
  std::set<std::string_view> names;
  const std::byte* end_of_previous = bytes.data();
  unsigned sum = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    EXPECT_TRUE(names.insert(tensor.name).second);
    EXPECT_GE(tensor.bytes.data(), end_of_previous);
    end_of_previous = tensor.bytes.data() + tensor.bytes.size();
    EXPECT_LE(end_of_previous, bytes.data() + bytes.size());
    for (const std::byte byte : tensor.bytes) sum += static_cast<unsigned>(byte);
    hf_tensor_name("gemma3", tensor.name);
  }
  for (const GgufEntry& entry : file.entries()) {
    EXPECT_EQ(file.find(entry.key), &entry.value);
    entry.value.describe();
    entry.value.as_integers();
    entry.value.as_floats();
    if (const auto* strings = entry.value.as_strings()) {
      for (const std::string_view text : *strings) sum += static_cast<unsigned>(text.size());
    }
  }
  EXPECT_LT(sum, 1u << 30);
  if (const Result<std::string> architecture = gguf_architecture(file)) {
    const auto config = gguf_config(file, *architecture);
    if (!config) {
      EXPECT_NE(config.error().message.find("mutant"), std::string::npos);
    }
  }
}

TEST(GgufMutation, TheFileItselfIsGood) {
  const std::vector<std::byte> bytes = varied_file();
  const Result<GgufFile> file = GgufFile::parse(bytes, "mutant");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  visit_everything(*file, bytes);
  EXPECT_EQ((*gguf_config(*file, "gemma3"))["rope_scaling"]["rope_type"], "yarn");
}

TEST(GgufMutation, EveryTruncationIsAnError) {
  const std::vector<std::byte> bytes = varied_file();
  const Result<GgufFile> whole = GgufFile::parse(bytes, "mutant");
  ASSERT_TRUE(whole.has_value());
  const GgufTensor& last = whole->tensors().back();
  const auto end = static_cast<size_t>(last.bytes.data() + last.bytes.size() - bytes.data());
  for_each_truncation(bytes, [&](std::span<const std::byte> part, size_t length) {
    const Result<GgufFile> file = GgufFile::parse(part, "mutant");
    // Behind the last tensor there is only padding.
    EXPECT_EQ(file.has_value(), length >= end) << length;
    if (!file) {
      EXPECT_EQ(file.error().code, ErrorCode::kCorrupt);
      EXPECT_NE(file.error().message.find("mutant: "), std::string::npos) << file.error().message;
    }
  });
}

TEST(GgufMutation, EveryChangedByteIsAnErrorOrHarmless) {
  const std::vector<std::byte> bytes = varied_file();
  int refused = 0;
  int accepted = 0;
  for_each_changed_byte(bytes, bytes.size(), [&](std::span<const std::byte> changed, size_t) {
    const Result<GgufFile> file = GgufFile::parse(changed, "mutant");
    if (file) {
      ++accepted;
      visit_everything(*file, changed);
    } else {
      ++refused;
      EXPECT_FALSE(file.error().message.empty());
    }
  });
  // Both kinds occur in numbers, or the test would be looking at nothing.
  EXPECT_GT(refused, 2000);
  EXPECT_GT(accepted, 2000);
}

}  // namespace
}  // namespace ashlar
