// Checkpoint over both containers: names, shapes, claims, flags, files beside the weights, and
// folders that disagree with themselves.
#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "testing/gguf_writer.h"
#include "testing/safetensors_writer.h"
#include "testing/temp_dir.h"

namespace ashlar {
namespace {

const std::vector<float> kValues = {1, 2, 3, 4, 5, 6, 7, 8};

std::shared_ptr<Checkpoint> open_or_fail(const std::string& path) {
  auto checkpoint = Checkpoint::open(path, {});
  EXPECT_TRUE(checkpoint.has_value()) << checkpoint.error().message;
  return checkpoint.value_or(nullptr);
}

std::string error_of(const std::string& path) {
  const auto checkpoint = Checkpoint::open(path, {});
  return checkpoint ? "accepted" : checkpoint.error().message;
}

void expect_contains(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

std::vector<std::byte> safetensors_with(std::initializer_list<const char*> names) {
  SafetensorsWriter writer;
  for (const char* name : names) writer.add_f32(name, {2, 4}, kValues);
  return writer.build();
}

GgufWriter gguf_model(const char* architecture) {
  GgufWriter writer;
  writer.set_string("general.architecture", architecture);
  writer.add_f32("token_embd.weight", {2, 4}, kValues);
  writer.add_f32("blk.0.attn_q.weight", {2, 4}, kValues);
  writer.add_f32("blk.0.attn_q.bias", {2}, std::span(kValues).first(2));
  writer.add_f32("blk.0.attn_q_norm.weight", {4}, std::span(kValues).first(4));
  writer.add_tensor("blk.0.ffn_up.weight", StorageType::kQ8_0, std::vector<int64_t>{3, 32},
                    std::vector<std::byte>(3 * 34));
  return writer;
}

TEST(Checkpoint, Gguf) {
  const TempDir dir;
  const std::string path = dir.write("m.gguf", gguf_model("llama").build());
  const auto checkpoint = open_or_fail(path);
  ASSERT_NE(checkpoint, nullptr);
  EXPECT_EQ(checkpoint->path(), path);
  EXPECT_EQ(checkpoint->container(), "GGUF 3");
  EXPECT_NE(checkpoint->gguf(), nullptr);
  EXPECT_EQ(checkpoint->generation_config(), nullptr);
  EXPECT_EQ(checkpoint->config()["model_type"], "llama");
  EXPECT_EQ(checkpoint->optional_text("tokenizer.json").value(), std::nullopt);
  ASSERT_EQ(checkpoint->tensors().size(), 5u);
  EXPECT_EQ(checkpoint->tensors()[0].name, "model.embed_tokens.weight");

  const StoredTensor* q = checkpoint->find("model.layers.0.self_attn.q_proj.weight");
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(q->shape, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(q->file, path);
  EXPECT_EQ(std::memcmp(q->data(), kValues.data(), q->bytes), 0);
  const StoredTensor* up = checkpoint->find("model.layers.0.mlp.up_proj.weight");
  ASSERT_NE(up, nullptr);
  EXPECT_EQ(up->type, StorageType::kQ8_0);
  EXPECT_EQ(up->rows(), 3);
  EXPECT_EQ(up->columns(), 32);
  EXPECT_EQ(up->row_bytes(), 34u);
  EXPECT_EQ(checkpoint->find("blk.0.attn_q.weight"), nullptr);
}

TEST(Checkpoint, FlagsOfGgufFamilies) {
  const TempDir dir;
  const auto flags = [&](const char* architecture) {
    const auto checkpoint = open_or_fail(dir.write("m.gguf", gguf_model(architecture).build()));
    return std::pair(checkpoint->qk_rows_interleaved(), checkpoint->norm_weights_include_one());
  };
  EXPECT_EQ(flags("llama"), std::pair(true, false));
  EXPECT_EQ(flags("qwen2"), std::pair(false, false));
  EXPECT_EQ(flags("qwen3"), std::pair(false, false));
  EXPECT_EQ(flags("gemma3"), std::pair(false, true));
}

TEST(Checkpoint, GroupsAndClaims) {
  const TempDir dir;
  const auto checkpoint = open_or_fail(dir.write("m.gguf", gguf_model("llama").build()));
  const TensorGroup group = checkpoint->group("model.layers.0.self_attn").group("q_proj");
  EXPECT_EQ(group.prefix(), "model.layers.0.self_attn.q_proj");
  ASSERT_EQ(group.tensors().size(), 2u);
  EXPECT_EQ(group.tensors()[0]->name, "model.layers.0.self_attn.q_proj.bias");
  EXPECT_NE(group.find("weight"), nullptr);
  EXPECT_EQ(group.find("weight_scale"), nullptr);
  EXPECT_EQ(group.claim("weight_scale"), nullptr);
  EXPECT_TRUE(checkpoint->group("model.layers.0.self_attn.q").empty());

  EXPECT_EQ(checkpoint->unclaimed().size(), 5u);  // find does not claim
  EXPECT_NE(group.claim("weight"), nullptr);
  EXPECT_NE(group.claim("bias"), nullptr);
  EXPECT_NE(checkpoint->claim("model.embed_tokens.weight"), nullptr);
  const Status status = checkpoint->refuse_unclaimed();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  expect_contains(
      status.error().message,
      "2 tensors have no use in this model: \"model.layers.0.self_attn.q_norm.weight\", "
      "\"model.layers.0.mlp.up_proj.weight\"");
  checkpoint->claim("model.layers.0.self_attn.q_norm.weight");
  checkpoint->claim("model.layers.0.mlp.up_proj.weight");
  EXPECT_TRUE(checkpoint->refuse_unclaimed().has_value());
}

TEST(Checkpoint, TranslatedNamesMustBeUnique) {
  const TempDir dir;
  GgufWriter writer = gguf_model("llama");
  writer.add_f32("model.embed_tokens.weight", {2, 4}, kValues);
  expect_contains(error_of(dir.write("m.gguf", writer.build())),
                  "two tensors are named \"model.embed_tokens.weight\"");
}

TEST(Checkpoint, FolderWithOneFile) {
  const TempDir dir;
  dir.write("config.json", R"({"model_type": "llama"})");
  dir.write("generation_config.json", R"({"eos_token_id": 2})");
  dir.write("tokenizer.json", "{ }");
  dir.write("model.safetensors", safetensors_with({"a.weight", "b.weight"}));
  const auto checkpoint = open_or_fail(dir.path().string());
  ASSERT_NE(checkpoint, nullptr);
  EXPECT_EQ(checkpoint->container(), "safetensors");
  EXPECT_EQ(checkpoint->config()["model_type"], "llama");
  EXPECT_EQ(checkpoint->config_name(), (dir.path() / "config.json").string());
  ASSERT_NE(checkpoint->generation_config(), nullptr);
  EXPECT_EQ((*checkpoint->generation_config())["eos_token_id"], 2);
  EXPECT_EQ(checkpoint->optional_text("tokenizer.json").value(), "{ }");
  EXPECT_EQ(checkpoint->optional_text("chat_template.jinja").value(), std::nullopt);
  EXPECT_EQ(checkpoint->gguf(), nullptr);
  EXPECT_FALSE(checkpoint->qk_rows_interleaved());
  EXPECT_FALSE(checkpoint->norm_weights_include_one());
  const StoredTensor* b = checkpoint->find("b.weight");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(std::memcmp(b->data(), kValues.data(), 32), 0);
}

TEST(Checkpoint, FolderWithShards) {
  const TempDir dir;
  dir.write("config.json", "{}");
  dir.write("s1.safetensors", safetensors_with({"c", "a"}));
  dir.write("s2.safetensors", safetensors_with({"b"}));
  const char* kIndex = R"({"metadata": {"total_size": 96}, "weight_map":
      {"a": "s1.safetensors", "b": "s2.safetensors", "c": "s1.safetensors"}})";
  dir.write("model.safetensors.index.json", kIndex);
  const auto checkpoint = open_or_fail(dir.path().string());
  ASSERT_NE(checkpoint, nullptr);
  ASSERT_EQ(checkpoint->tensors().size(), 3u);
  EXPECT_EQ(checkpoint->tensors()[0].name, "c");
  EXPECT_EQ(checkpoint->find("b")->file, (dir.path() / "s2.safetensors").string());
}

TEST(Checkpoint, IndexAndShardsMustAgree) {
  const TempDir dir;
  dir.write("config.json", "{}");
  dir.write("s1.safetensors", safetensors_with({"a", "b"}));
  dir.write("s2.safetensors", safetensors_with({"b"}));
  const auto with_index = [&](std::string_view map) {
    dir.write("model.safetensors.index.json", fmt::format(R"({{"weight_map": {}}})", map));
    return error_of(dir.path().string());
  };
  expect_contains(with_index(R"({"a": "s1.safetensors"})"), "places it nowhere");
  expect_contains(with_index(R"({"a": "s1.safetensors", "b": "s2.safetensors"})"),
                  "\"b\" is in s1.safetensors but the index places it in s2.safetensors");
  expect_contains(with_index(R"({"a": "s1.safetensors", "b": "s1.safetensors",
                                 "c": "s1.safetensors"})"),
                  "tensor \"c\" is not in s1.safetensors");
  expect_contains(with_index(R"({"a": "s3.safetensors"})"), "s3.safetensors: No such file");
  expect_contains(with_index(R"({"a": "../s1.safetensors"})"), "\"a\" has no plain");
  expect_contains(with_index(R"({"a": 1})"), "\"a\" has no plain");
  expect_contains(with_index("[]"), "weight_map is missing or no object");
}

TEST(Checkpoint, FoldersWithoutAModel) {
  const TempDir dir;
  expect_contains(error_of(dir.path().string()), "holds no model");
  dir.write("pytorch_model.bin", "x");
  expect_contains(error_of(dir.path().string()), "pickle");
  dir.write("model.safetensors", safetensors_with({"a"}));
  expect_contains(error_of(dir.path().string()), "config.json: No such file");
  dir.write("config.json", "[]");
  expect_contains(error_of(dir.path().string()), "config.json: not a JSON object");
  expect_contains(error_of((dir.path() / "model.safetensors").string()), "name the folder");
  expect_contains(error_of((dir.path() / "pytorch_model.bin").string()), "ends inside the header");
}

TEST(Checkpoint, FolderWithGgufFiles) {
  const TempDir dir;
  dir.write("a.gguf", gguf_model("llama").build());
  EXPECT_NE(open_or_fail(dir.path().string()), nullptr);
  dir.write("b.gguf", gguf_model("llama").build());
  expect_contains(error_of(dir.path().string()), "holds 2 GGUF files; name one of them");
}

TEST(Checkpoint, HubId) {
  const TempDir dir;
  dir.write("models--org--name/refs/main", "c0ffee");
  dir.write("models--org--name/snapshots/c0ffee/config.json", "{}");
  dir.write("models--org--name/snapshots/c0ffee/model.safetensors", safetensors_with({"a"}));
  HubPaths hub;
  hub.hf_hub_cache = dir.path().string();
  const auto checkpoint = Checkpoint::open("org/name", hub);
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message;
  EXPECT_NE((*checkpoint)->find("a"), nullptr);
}

// Old writers did not pad the header, so the data may start at any byte.
TEST(Checkpoint, PlainNumbersAreAligned) {
  const TempDir dir;
  SafetensorsWriter writer;
  writer.add_tensor("odd", StorageType::kU8, std::vector<int64_t>{3}, std::vector<std::byte>(3));
  writer.add_f32("f", {8}, kValues);
  for (size_t spaces = 0; spaces < 8; ++spaces) {
    dir.write("config.json", "{}");
    dir.write("model.safetensors",
              writer.build_with_header(writer.header() + std::string(spaces, ' ')));
    const auto checkpoint = open_or_fail(dir.path().string());
    ASSERT_NE(checkpoint, nullptr);
    const StoredTensor* tensor = checkpoint->find("f");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->data()) % 4, 0u);
    EXPECT_EQ(std::memcmp(tensor->data(), kValues.data(), 32), 0);
  }
}

TEST(StoredTensor, Extents) {
  StoredTensor tensor;
  EXPECT_EQ(tensor.elements(), 1);
  EXPECT_EQ(tensor.rows(), 1);
  tensor.shape = {2, 3, 4};
  EXPECT_EQ(tensor.elements(), 24);
  EXPECT_EQ(tensor.rows(), 6);
  EXPECT_EQ(tensor.columns(), 4);
  EXPECT_EQ(tensor.row_bytes(), 16u);
  tensor.shape = {INT64_MAX, INT64_MAX, 0};
  EXPECT_EQ(tensor.elements(), 0);
  EXPECT_EQ(tensor.rows(), 0);
}

TEST(MappedFile, ErrorsNamePathAndReason) {
  const TempDir dir;
  const std::string missing = (dir.path() / "none").string();
  const auto file = MappedFile::open(missing);
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(file.error().message, "cannot open " + missing + ": No such file or directory");
  EXPECT_EQ(MappedFile::open(dir.path().string()).error().message,
            dir.path().string() + " is not a regular file");
  const std::string empty = dir.write("empty", std::string_view());
  EXPECT_EQ(MappedFile::open(empty).value()->bytes().size(), 0u);
  const std::string text = dir.write("text", "12345");
  EXPECT_EQ(read_text_file(text, 5).value(), "12345");
  EXPECT_EQ(read_text_file(text, 4).error().code, ErrorCode::kOutOfRange);
}

}  // namespace
}  // namespace ashlar
