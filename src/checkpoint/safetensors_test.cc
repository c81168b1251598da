// safetensors: a good file, each rule broken once, and systematic damage.
#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "testing/byte_writer.h"
#include "testing/mutations.h"
#include "testing/safetensors_writer.h"

namespace ashlar {
namespace {

SafetensorsWriter good_writer() {
  SafetensorsWriter writer;
  writer.set_metadata("format", "pt");
  writer.add_f32("a.weight", {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  writer.add_tensor("b", StorageType::kBF16, std::vector<int64_t>{4}, std::vector<std::byte>(8));
  writer.add_tensor("empty", StorageType::kF32, std::vector<int64_t>{0, 7}, {});
  writer.add_tensor("scalar", StorageType::kI64, {}, std::vector<std::byte>(8));
  return writer;
}

// The error for a header over 24 data bytes, or "accepted".
std::string message_of(std::string_view header) {
  SafetensorsWriter writer;
  writer.add_f32("x", {6}, std::vector<float>(6));
  const Result<SafetensorsFile> file =
      SafetensorsFile::parse(writer.build_with_header(header), "bad.safetensors");
  return file ? "accepted" : file.error().message;
}

void expect_says(const std::string& message, std::initializer_list<const char*> parts) {
  EXPECT_TRUE(message.starts_with("bad.safetensors: ")) << message;
  for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Safetensors, ReadsAFile) {
  const std::vector<std::byte> bytes = good_writer().build();
  const Result<SafetensorsFile> file = SafetensorsFile::parse(bytes, "good");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->metadata().at("format"), "pt");
  ASSERT_EQ(file->tensors().size(), 4u);
  const SafetensorsTensor& a = file->tensors()[0];
  EXPECT_EQ(a.name, "a.weight");
  EXPECT_EQ(a.type, StorageType::kF32);
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 3}));
  ASSERT_EQ(a.bytes.size(), 24u);
  float last = 0;
  std::memcpy(&last, a.bytes.data() + 20, 4);
  EXPECT_EQ(last, 6.0f);
  EXPECT_EQ(file->tensors()[2].name, "empty");
  EXPECT_EQ(file->tensors()[2].bytes.size(), 0u);
  EXPECT_EQ(file->tensors()[3].shape, std::vector<int64_t>{});
}

TEST(Safetensors, OrderOfTheHeaderDoesNotMatter) {
  EXPECT_EQ(message_of(R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[16,24]},
                          "a":{"data_offsets":[0,16],"shape":[2,2],"dtype":"F32"}})"),
            "accepted");
}

TEST(SafetensorsHostile, HeaderLength) {
  const auto with_length = [](uint64_t length) {
    std::vector<std::byte> bytes;
    append_value(bytes, length);
    append_bytes(bytes, "{}", 2);
    const auto file = SafetensorsFile::parse(bytes, "bad.safetensors");
    return file ? "accepted" : file.error().message;
  };
  EXPECT_EQ(with_length(2), "accepted");
  expect_says(with_length(3), {"claims 3 bytes", "10 in all"});
  expect_says(with_length(100'000'001), {"at most 100000000"});
  expect_says(with_length(uint64_t{1} << 63), {"9223372036854775808"});
  expect_says(with_length(~uint64_t{0}), {"18446744073709551615"});
  expect_says(with_length(0), {"not valid JSON"});
  EXPECT_FALSE(SafetensorsFile::parse({}, "empty").has_value());
}

TEST(SafetensorsHostile, HeaderJson) {
  expect_says(message_of("[]"), {"an array"});
  expect_says(message_of("7"), {"a number"});
  expect_says(message_of(R"({"x":7})"), {"\"x\" has a number"});
  expect_says(message_of(R"({"x":{"dtype":"F32")"), {"not valid JSON"});
  expect_says(message_of(R"({"x":{"dtype":{"a":1}}})"), {"\"x\" has an object"});
  expect_says(message_of(R"({"x":{"shape":[[1]]}})"), {"\"x\" has an array"});
  expect_says(message_of(R"({"x":{"what":1}})"), {"unknown key \"what\""});
  expect_says(message_of(R"({"x":{"dtype":"F32","dtype":"F32"}})"), {"repeated key \"dtype\""});
  expect_says(message_of(R"({"x":{"dtype":"F32","shape":[6]}})"), {"\"x\" has no complete"});
  expect_says(message_of(R"({"x\n":{}})"), {"\"x\\x0a\" has a bad tensor name"});
  expect_says(message_of(R"({"__metadata__":{"a":1}})"), {"has a number"});
  expect_says(message_of(std::string(1'000'000, '[')), {"an array"});
  expect_says(message_of(R"({"x":)" + std::string(1'000'000, '[')), {"an array"});
  expect_says(message_of("{\"\xff\":1}"), {"not valid JSON"});
}

std::string with_entry(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return message_of(fmt::format(R"({{"x":{{"dtype":"{}","shape":[{}],"data_offsets":[{}]}}}})",
                                dtype, shape, offsets));
}

TEST(SafetensorsHostile, EntriesAgainstTheData) {
  EXPECT_EQ(with_entry("F32", "6", "0,24"), "accepted");
  expect_says(with_entry("F32", "5", "0,24"), {"\"x\" of shape [5]", "takes 20 bytes, not 24"});
  expect_says(with_entry("F32", "5", "0,20"), {"20 bytes", "24 data bytes"});
  expect_says(with_entry("F32", "7", "0,28"), {"\"x\" lies at [0, 28) of 24"});
  expect_says(with_entry("F32", "5", "4,24"), {"\"x\" begins at 4", "gap"});
  expect_says(with_entry("F32", "6", "24,0"), {"\"x\" lies at [24, 0)"});
  expect_says(with_entry("F32", "6", "0"), {"no complete"});
  expect_says(with_entry("F32", "6", "0,24,48"), {"too many numbers"});
  expect_says(with_entry("F32", "-6", "0,24"), {"a negative number"});
  expect_says(with_entry("F32", "6.0", "0,24"), {"no integer"});
  expect_says(with_entry("F32", "18446744073709551615", "0,24"), {"above 2^63"});
  expect_says(with_entry("F32", "1,1,1,1,1,1,1,1,6", "0,24"), {"too many numbers"});
  // The product wraps to 6 elements in 64 bits.
  expect_says(with_entry("F32", "6,4611686018427387905,4", "0,24"), {"more than 2^63"});
  expect_says(with_entry("F32", "3,4611686018427387906", "0,24"), {"more than 2^63"});
  expect_says(with_entry("F32", "6", "0,9223372036854775807"), {"lies at"});
  expect_says(with_entry("F4", "48", "0,24"), {"\"x\" has dtype \"F4\", which is not supported"});
  expect_says(with_entry("", "6", "0,24"), {"\"x\" has dtype \"\""});
}

TEST(SafetensorsHostile, SeveralTensors) {
  const char* kOverlap = R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},
                            "b":{"dtype":"F32","shape":[3],"data_offsets":[12,24]}})";
  expect_says(message_of(kOverlap), {"\"b\" begins at 12 where 16 was expected (an overlap)"});
  const char* kTwice = R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},
                          "a":{"dtype":"F32","shape":[3],"data_offsets":[12,24]}})";
  expect_says(message_of(kTwice), {"\"a\" occurs twice"});
}

TEST(SafetensorsMutation, EveryTruncationIsAnError) {
  const std::vector<std::byte> bytes = good_writer().build();
  for_each_truncation(bytes, [](std::span<const std::byte> part, size_t length) {
    const Result<SafetensorsFile> file = SafetensorsFile::parse(part, "mutant");
    EXPECT_FALSE(file.has_value()) << length;
  });
}

TEST(SafetensorsMutation, EveryChangedByteIsAnErrorOrHarmless) {
  const std::vector<std::byte> bytes = good_writer().build();
  int accepted = 0;
  int refused = 0;
  for_each_changed_byte(bytes, bytes.size(), [&](std::span<const std::byte> changed, size_t) {
    const Result<SafetensorsFile> file = SafetensorsFile::parse(changed, "mutant");
    file ? ++accepted : ++refused;
    if (!file) return;
    std::set<std::string_view> names;
    size_t total = 0;
    for (const SafetensorsTensor& tensor : file->tensors()) {
      EXPECT_TRUE(names.insert(tensor.name).second);
      total += tensor.bytes.size();
      EXPECT_LE(tensor.bytes.data() + tensor.bytes.size(), changed.data() + changed.size());
    }
    EXPECT_LE(total, changed.size());
  });
  EXPECT_GT(accepted, 400);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace ashlar
