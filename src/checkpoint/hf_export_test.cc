// Export: what was written opens again with the same bytes and configuration, and what goes wrong
// leaves nothing behind.
#include "checkpoint/hf_export.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "testing/gguf_writer.h"
#include "testing/temp_dir.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSmall = "synthetic:qwen3-0.6b?layers=1&vocab=512";

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

void expect_same(const Checkpoint& a, const Checkpoint& b) {
  EXPECT_EQ(a.config(), b.config());
  ASSERT_NE(b.generation_config(), nullptr);
  EXPECT_EQ(*a.generation_config(), *b.generation_config());
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    EXPECT_EQ(a.optional_text(file).value(), b.optional_text(file).value()) << file;
  }
  ASSERT_EQ(a.tensors().size(), b.tensors().size());
  for (const StoredTensor& tensor : a.tensors()) {
    const StoredTensor* other = b.find(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    EXPECT_EQ(other->type, tensor.type);
    EXPECT_EQ(other->shape, tensor.shape);
    EXPECT_EQ(std::memcmp(tensor.data(), other->data(), tensor.bytes), 0) << tensor.name;
  }
}

TEST(HfExport, OpensAgainWithTheSameBytes) {
  const TempDir dir;
  const auto original = Checkpoint::open(kSmall, {}).value();
  const std::string whole = (dir.path() / "new" / "whole").string();
  const auto files = export_hf_folder(*original, whole);
  ASSERT_TRUE(files.has_value()) << files.error().message;
  EXPECT_EQ(names_in(whole),
            (std::set<std::string>{"config.json", "generation_config.json", "model.safetensors",
                                   "tokenizer.json", "tokenizer_config.json"}));
  for (const ExportedFile& file : *files) {
    EXPECT_EQ(static_cast<uintmax_t>(file.bytes), fs::file_size(fs::path(whole) / file.name));
  }
  const auto copy = Checkpoint::open(whole, {}).value();
  expect_same(*original, *copy);

  // The copy is a folder of files; it goes out again, into shards this time.
  const std::string shards = (dir.path() / "shards").string();
  fs::create_directory(shards);
  const auto again = export_hf_folder(*copy, shards + "/", {.shard_bytes = 8'000'000});
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_TRUE(names_in(shards).contains("model.safetensors.index.json"));
  EXPECT_TRUE(names_in(shards).contains("model-00005-of-00005.safetensors"));
  expect_same(*original, *Checkpoint::open(shards, {}).value());
}

TEST(HfExport, RefusesWhatItCannotWrite) {
  const TempDir dir;
  const auto original = Checkpoint::open(kSmall, {}).value();
  const auto error = [&](const Checkpoint& checkpoint, const fs::path& folder) {
    const auto files = export_hf_folder(checkpoint, folder.string());
    return files.has_value() ? "written" : files.error().message;
  };
  const std::string file = dir.write("full/notes.txt", "kept");
  EXPECT_NE(error(*original, dir.path() / "full").find("is not empty"), std::string::npos);
  EXPECT_NE(error(*original, file).find("is no folder"), std::string::npos);
  EXPECT_EQ(names_in(dir.path() / "full"), std::set<std::string>{"notes.txt"});

  GgufWriter writer;
  writer.set_string("general.architecture", "llama");
  writer.add_f32("token_embd.weight", {2, 4}, std::vector<float>(8));
  const auto gguf = Checkpoint::open(dir.write("m.gguf", writer.build()), {});
  ASSERT_TRUE(gguf.has_value()) << gguf.error().message;
  EXPECT_NE(error(**gguf, dir.path() / "out").find("GGUF"), std::string::npos);
  EXPECT_FALSE(fs::exists(dir.path() / "out"));
}

// A limit on file sizes stands in for a disk that becomes full.
TEST(HfExport, AFailedWriteLeavesNothing) {
  const TempDir dir;
  const auto original = Checkpoint::open(kSmall, {}).value();
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 1 << 20;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  fs::create_directory(dir.path() / "empty");
  const auto fresh = export_hf_folder(*original, (dir.path() / "fresh/a/b").string());
  const auto existing = export_hf_folder(*original, (dir.path() / "empty").string());
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(fresh.has_value());
  ASSERT_FALSE(existing.has_value());
  EXPECT_NE(fresh.error().message.find("model.safetensors: File too large"), std::string::npos)
      << fresh.error().message;
  EXPECT_FALSE(fs::exists(dir.path() / "fresh"));
  EXPECT_TRUE(fs::is_empty(dir.path() / "empty"));
}

}  // namespace
}  // namespace ashlar
