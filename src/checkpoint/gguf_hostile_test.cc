// One rule of the GGUF container broken at a time; each error must say what is wrong and where.
#include <gtest/gtest.h>

#include <functional>

#include "checkpoint/gguf.h"
#include "testing/byte_writer.h"
#include "testing/gguf_writer.h"

namespace ashlar {
namespace {

// Parses and returns the error's message, or "accepted".
std::string message_of(std::span<const std::byte> bytes) {
  const Result<GgufFile> file = GgufFile::parse(bytes, "bad.gguf");
  return file ? "accepted" : file.error().message;
}

std::string message_of(const GgufWriter& writer) { return message_of(writer.build()); }

void expect_says(const std::string& message, std::initializer_list<const char*> parts) {
  EXPECT_TRUE(message.starts_with("bad.gguf: ")) << message;
  for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
}

std::vector<std::byte> header(uint32_t version, uint64_t tensors, uint64_t keys) {
  std::vector<std::byte> out;
  append_bytes(out, "GGUF", 4);
  append_value(out, version);
  append_value(out, tensors);
  append_value(out, keys);
  return out;
}

constexpr uint32_t kStringType = 8;
constexpr uint32_t kArrayType = 9;
const std::vector<float> kOnes(64, 1.0f);

TEST(GgufHostile, EmptyOrAnotherFormat) {
  expect_says(message_of(std::vector<std::byte>{}), {"ends inside the header"});
  std::vector<std::byte> other(64, std::byte{'x'});
  expect_says(message_of(other), {"not a GGUF file"});
}

TEST(GgufHostile, Versions) {
  expect_says(message_of(header(1, 0, 0)), {"version 1"});
  expect_says(message_of(header(0x03000000, 0, 0)), {"big-endian"});
  expect_says(message_of(header(4, 0, 0)), {"version 4"});
  EXPECT_EQ(message_of(header(2, 0, 0)), "accepted");
  EXPECT_EQ(message_of(header(3, 0, 0)), "accepted");
}

TEST(GgufHostile, CountsBeyondTheFile) {
  expect_says(message_of(header(3, 0, 1)), {"1 keys"});
  expect_says(message_of(header(3, 0, ~uint64_t{0})), {"18446744073709551615 keys"});
  expect_says(message_of(header(3, uint64_t{1} << 61, 0)), {"2305843009213693952 tensors"});
}

TEST(GgufHostile, StringLengths) {
  for (const uint64_t length :
       {uint64_t{1} << 63, ~uint64_t{0}, uint64_t{4096}, uint64_t{1} << 31}) {
    std::vector<std::byte> bytes = header(3, 0, 1);
    append_value(bytes, length);
    append_bytes(bytes, "12345678", 8);
    expect_says(message_of(bytes), {"name of key 0", "at byte"});

    GgufWriter value;
    std::vector<std::byte> string;
    append_value(string, length);
    value.set_raw("k", kStringType, string);
    expect_says(message_of(value), {"string of key \"k\""});
  }
}

TEST(GgufHostile, KeyNames) {
  GgufWriter twice;
  twice.set_u32("llama.block_count", 1);
  twice.set_u32("a", 1);
  twice.set_u32("llama.block_count", 2);
  expect_says(message_of(twice), {"\"llama.block_count\" occurs twice"});
  GgufWriter empty;
  empty.set_u32("", 1);
  expect_says(message_of(empty), {"key 0 has a bad name"});
  GgufWriter control;
  control.set_u32("a\n\x1b[31m", 1);
  expect_says(message_of(control), {"a\\x0a\\x1b[31m"});
  GgufWriter longest;
  longest.set_u32(std::string(65536, 'k'), 1);
  expect_says(message_of(longest), {"65536 bytes"});
}

TEST(GgufHostile, ValueTypes) {
  GgufWriter unknown;
  unknown.set_raw("k", 13, {});
  expect_says(message_of(unknown), {"\"k\" has the unknown type 13"});
  GgufWriter boolean;
  boolean.set_raw("k", 7, std::vector<std::byte>{std::byte{2}});
  expect_says(message_of(boolean), {"\"k\"", "neither 0 nor 1"});
}

TEST(GgufHostile, Arrays) {
  const auto array = [](uint32_t type, uint64_t count) {
    std::vector<std::byte> bytes;
    append_value(bytes, type);
    append_value(bytes, count);
    GgufWriter writer;
    writer.set_raw("k", kArrayType, bytes);
    return message_of(writer);
  };
  expect_says(array(kArrayType, 1), {"\"k\" is an array of arrays"});
  expect_says(array(77, 1), {"array of the unknown type 77"});
  expect_says(array(4, uint64_t{1} << 62), {"4611686018427387904 elements"});
  expect_says(array(kStringType, uint64_t{1} << 31), {"2147483648 elements"});
  expect_says(array(4, uint64_t{1} << 29), {"536870912 elements"});
  expect_says(array(kStringType, uint64_t{1} << 23), {"8388608 elements"});
  EXPECT_EQ(array(kStringType, 0), "accepted");
}

TEST(GgufHostile, Alignment) {
  for (const uint32_t alignment : {0u, 1u, 3u, 4u, 48u, 0xffffffffu, 1u << 31}) {
    GgufWriter writer;
    writer.set_alignment(alignment);
    expect_says(message_of(writer), {"general.alignment", "power of two"});
  }
  GgufWriter text;
  text.set_string("general.alignment", "32");
  expect_says(message_of(text), {"general.alignment is string"});
}

TEST(GgufHostile, SplitFiles) {
  GgufWriter writer;
  writer.set_u32("split.count", 3);
  expect_says(message_of(writer), {"split GGUF file (3 parts)"});
}

// A file with one good tensor in front of one that `change` damages.
std::string damaged_tensor(const std::function<void(GgufWriter&)>& change,
                           std::string_view name = "t") {
  GgufWriter writer;
  writer.add_f32("first", {2, 32}, kOnes);
  writer.add_f32(name, {64}, kOnes);
  change(writer);
  return message_of(writer);
}

TEST(GgufHostile, TensorNames) {
  expect_says(damaged_tensor([](GgufWriter&) {}, "first"), {"\"first\" occurs twice"});
  expect_says(damaged_tensor([](GgufWriter&) {}, ""), {"tensor 1 has a bad name"});
  expect_says(damaged_tensor([](GgufWriter&) {}, std::string(64, 'n')), {"64 bytes"});
  EXPECT_EQ(damaged_tensor([](GgufWriter&) {}, std::string(63, 'n')), "accepted");
}

TEST(GgufHostile, TensorShapes) {
  const auto extents = [](std::vector<uint64_t> values) {
    return damaged_tensor([&](GgufWriter& w) { w.override_last_extents(values); });
  };
  EXPECT_EQ(extents({8, 8}), "accepted");
  expect_says(extents({}), {"\"t\" has 0 axes"});
  expect_says(extents({2, 2, 2, 2, 4}), {"\"t\" has 5 axes"});
  expect_says(extents({64, 0}), {"extent 0 on axis 1"});
  expect_says(extents({uint64_t{1} << 63}), {"extent 9223372036854775808"});
  // Products that wrap to 64 elements, to 0 and to a negative number.
  expect_says(extents({64, (uint64_t{1} << 58) + 1}), {"\"t\"", "no valid size"});
  expect_says(extents({uint64_t{1} << 32, uint64_t{1} << 32}), {"\"t\"", "no valid size"});
  expect_says(extents({uint64_t{1} << 31, uint64_t{1} << 30}), {"\"t\"", "no valid size"});
  expect_says(extents({65}), {"\"t\" of 260 bytes", "past the end"});
}

TEST(GgufHostile, TensorTypes) {
  const auto type = [](uint32_t id) {
    return damaged_tensor([&](GgufWriter& w) { w.override_last_type(id); });
  };
  expect_says(type(23), {"\"t\" has type IQ4_XS, which is not supported"});
  expect_says(type(16), {"\"t\" has type IQ2_XXS, which is not supported"});
  expect_says(type(40), {"\"t\" has type NVFP4"});
  expect_says(type(34), {"\"t\" has type TQ1_0"});
  expect_says(type(41), {"\"t\" has the unknown type 41"});
  expect_says(type(0xffffffff), {"unknown type 4294967295"});
  expect_says(type(12), {"\"t\" of shape [64]", "Q4_K (blocks of 256)"});
}

TEST(GgufHostile, RefusedTypesAreCounted) {
  GgufWriter writer;
  for (const char* name : {"a", "b", "c"}) {
    writer.add_f32(name, {64}, kOnes);
    writer.override_last_type(29);
  }
  expect_says(message_of(writer), {"\"a\" has type IQ1_M", "2 more"});
}

TEST(GgufHostile, TensorOffsets) {
  const auto offset = [](uint64_t value) {
    return damaged_tensor([&](GgufWriter& w) { w.override_last_offset(value); });
  };
  EXPECT_EQ(offset(256), "accepted");
  for (const uint64_t value : {uint64_t{0}, uint64_t{224}, uint64_t{255}, uint64_t{288},
                               uint64_t{1} << 63, ~uint64_t{0}}) {
    expect_says(offset(value), {"\"t\"", "256 was expected"});
  }
}

}  // namespace
}  // namespace ashlar
