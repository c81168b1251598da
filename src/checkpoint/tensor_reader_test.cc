// Reading of tensors into memory of the caller: any run of bytes of any kind of tensor, and what is
// said when the file is not what it was.
#include "checkpoint/tensor_reader.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>

#include "checkpoint/mapped_file.h"
#include "testing/safetensors_writer.h"
#include "testing/temp_dir.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

class TensorReading : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::byte> bytes(3000);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 256);
    SafetensorsWriter writer;
    writer.add_tensor("first", StorageType::kU8, std::vector<int64_t>{3},
                      std::vector<std::byte>(3));
    writer.add_tensor("second", StorageType::kU8, std::vector<int64_t>{3000}, bytes);
    file_ = dir_.write("model.safetensors", writer.build());
    dir_.write("config.json", "{}");
    wanted_ = bytes;
    open(dir_.path().string());
  }
  void open(const std::string& argument) {
    auto opened = Checkpoint::open(argument, {});
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    checkpoint_ = *opened;
  }
  const StoredTensor& tensor(std::string_view name) const { return *checkpoint_->find(name); }
  std::string failure(size_t offset, size_t bytes) {
    std::vector<std::byte> out(bytes);
    TensorReader reader;
    const Status read = reader.read(tensor("second"), offset, out);
    return read ? "read" : read.error().message;
  }

  TempDir dir_;
  std::string file_;
  std::vector<std::byte> wanted_;
  std::shared_ptr<Checkpoint> checkpoint_;
};

TEST_F(TensorReading, AnyRunIsThatOfTheMapping) {
  TensorReader reader;
  for (const auto& [offset, count] :
       {std::pair<size_t, size_t>{0, 3000}, {0, 1}, {1, 2999}, {2999, 1}, {3000, 0}, {777, 512}}) {
    std::vector<std::byte> out(count, std::byte{0xee});
    ASSERT_TRUE(reader.read(tensor("second"), offset, out).has_value()) << offset;
    EXPECT_TRUE(std::equal(out.begin(), out.end(), wanted_.begin() + offset)) << offset;
  }
}

TEST_F(TensorReading, GeneratedTensorsAreMadeForTheCall) {
  open("synthetic:qwen3-0.6b?layers=1&vocab=500");
  const StoredTensor& embedding = tensor("model.embed_tokens.weight");
  TensorReader reader;
  std::vector<std::byte> whole(embedding.bytes);
  ASSERT_TRUE(reader.read(embedding, 0, whole).has_value());
  std::vector<std::byte> odd(34);
  ASSERT_TRUE(reader.read(embedding, 1234, odd).has_value());
  EXPECT_TRUE(std::equal(odd.begin(), odd.end(), whole.begin() + 1234));
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), embedding.data()));
  EXPECT_NE(whole[1], whole[1001]);
}

TEST_F(TensorReading, AFileThatBecameShorterIsNamedWithThePlace) {
  const auto begin =
      static_cast<size_t>(tensor("second").mapped - tensor("second").mapping->bytes().data());
  fs::resize_file(file_, begin + 1000);
  EXPECT_EQ(failure(0, 1000), "read");
  EXPECT_EQ(failure(500, 1500),
            fmt::format("{}: tensor \"second\" needs 1000 bytes from byte {} on, but the file ends "
                        "at {}; it has become shorter since it was opened: fetch it again",
                        file_, begin + 1000, begin + 1000));
}

TEST_F(TensorReading, AFileThatWasReplacedIsRefused) {
  fs::copy_file(file_, dir_.path() / "copy");
  fs::rename(dir_.path() / "copy", file_);
  EXPECT_NE(failure(0, 10).find("was replaced by another file while it was loaded"),
            std::string::npos)
      << failure(0, 10);
  fs::remove(file_);
  EXPECT_EQ(failure(0, 10).find("cannot open " + file_), 0u) << failure(0, 10);
}

TEST_F(TensorReading, WhatTheSystemRefusesIsNamed) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::string said = failure(0, 10);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(said, "cannot open " + file_ + ": Too many open files");
}

}  // namespace
}  // namespace ashlar
