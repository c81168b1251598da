// The container vector of the format's specification: a file of 768 bytes that another writer made,
// with an unusual alignment, every kind of value and two tensors. It keeps reader and writer of
// ours from sharing a mistake.
#include <gtest/gtest.h>

#include "checkpoint/gguf.h"

namespace ashlar {
namespace {

constexpr std::string_view kFileHex =
    "474755460300000002000000000000000a00000000000000140000000000000067656e6572616c2e61726368"
    "69746563747572650800000005000000000000006c6c616d6111000000000000006c6c616d612e626c6f636b"
    "5f636f756e7404000000020000000c0000000000000067656e6572616c2e6e616d6508000000040000000000"
    "000074696e79110000000000000067656e6572616c2e616c69676e6d656e7404000000400000001500000000"
    "000000746f6b656e697a65722e67676d6c2e746f6b656e730900000008000000030000000000000001000000"
    "0000000061020000000000000062630400000000000000e29681641900000000000000746f6b656e697a6572"
    "2e67676d6c2e746f6b656e5f7479706509000000050000000300000000000000010000000300000006000000"
    "1c00000000000000746f6b656e697a65722e67676d6c2e6164645f626f735f746f6b656e0700000001140000"
    "00000000006c6c616d612e726f70652e667265715f626173650600000000401c460500000000000000782e75"
    "36340a00000000000000000100000b00000000000000782e6e65737465645f69380900000005000000020000"
    "0000000000010000000200000001000000000000004102000000050000000000000003000000000000000000"
    "0000000000000000000001000000000000004202000000200000000000000002000000000000000800000040"
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "000000000000063c0000373c000032be000018bc0000263f00009abd00009e3e0000993f0000dd3e00002b3e"
    "0000b13c0000af3f000091bc000017bc00005b3f00000000b723fff8effd0401ff10810bfdffff0aff02eeff"
    "60cdff711ffc017c3b33fcf7f0c47f238c1804c61004fffdfcff7f50fedefd0764a8ffff1c0525183fe4f10d"
    "e5de04ff00000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000";

std::vector<std::byte> bytes_of_hex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::vector<std::byte> out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<std::byte>(digit(hex[i]) * 16 + digit(hex[i + 1])));
  }
  return out;
}

uint32_t crc32(std::span<const std::byte> bytes) {
  uint32_t crc = ~0u;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

TEST(GgufVector, ReadsKeysAndTensors) {
  const std::vector<std::byte> bytes = bytes_of_hex(kFileHex);
  ASSERT_EQ(bytes.size(), 768u);
  const Result<GgufFile> file = GgufFile::parse(bytes, "tiny.gguf");
  ASSERT_TRUE(file.has_value()) << file.error().message;

  EXPECT_EQ(file->find("general.architecture")->as_string(), "llama");
  EXPECT_EQ(file->find("llama.block_count")->as_integer(), 2);
  EXPECT_EQ(file->find("x.u64")->as_integer(), int64_t{1} << 40);
  EXPECT_EQ(file->find("general.alignment")->as_integer(), 64);
  EXPECT_EQ(file->find("tokenizer.ggml.add_bos_token")->as_bool(), true);
  EXPECT_EQ(file->find("llama.rope.freq_base")->as_float(), 10000.0);
  EXPECT_EQ(*file->find("tokenizer.ggml.tokens")->as_strings(),
            (std::vector<std::string_view>{"a", "bc", "\u2581d"}));
  EXPECT_EQ(file->find("tokenizer.ggml.token_type")->as_integers(),
            (std::vector<int64_t>{1, 3, 6}));
  EXPECT_EQ(file->find("no.such.key"), nullptr);

  EXPECT_EQ(file->alignment(), 64u);
  EXPECT_EQ(file->data_start(), 576u);
  ASSERT_EQ(file->tensors().size(), 2u);
  const GgufTensor& a = file->tensors()[0];
  EXPECT_EQ(a.name, "A");
  EXPECT_EQ(a.type, StorageType::kF32);
  EXPECT_EQ(a.shape, (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(a.bytes.data() - bytes.data(), 576);
  EXPECT_EQ(crc32(a.bytes), 0x4386ca87u);
  const GgufTensor& b = file->tensors()[1];
  EXPECT_EQ(b.name, "B");
  EXPECT_EQ(b.type, StorageType::kQ8_0);
  EXPECT_EQ(b.shape, (std::vector<int64_t>{2, 32}));
  EXPECT_EQ(b.bytes.data() - bytes.data(), 640);
  EXPECT_EQ(crc32(b.bytes), 0x933c6374u);
}

}  // namespace
}  // namespace ashlar
