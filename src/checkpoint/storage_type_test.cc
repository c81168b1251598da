// Sizes of storage types against the formats' published block sizes, and the overflow rules.
#include "checkpoint/storage_type.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace ashlar {
namespace {

constexpr int64_t kMost = INT64_MAX;

std::optional<int64_t> bytes_of(StorageType type, std::vector<int64_t> shape) {
  return tensor_bytes(type, shape);
}

TEST(StorageType, RowBytes) {
  EXPECT_EQ(row_bytes(StorageType::kF32, 3), 12);
  EXPECT_EQ(row_bytes(StorageType::kBF16, 3), 6);
  EXPECT_EQ(row_bytes(StorageType::kQ4_0, 64), 36);
  EXPECT_EQ(row_bytes(StorageType::kQ4_1, 64), 40);
  EXPECT_EQ(row_bytes(StorageType::kQ5_0, 64), 44);
  EXPECT_EQ(row_bytes(StorageType::kQ5_1, 64), 48);
  EXPECT_EQ(row_bytes(StorageType::kQ8_0, 64), 68);
  EXPECT_EQ(row_bytes(StorageType::kMXFP4, 64), 34);
  EXPECT_EQ(row_bytes(StorageType::kIQ4_NL, 64), 36);
  EXPECT_EQ(row_bytes(StorageType::kQ2_K, 512), 168);
  EXPECT_EQ(row_bytes(StorageType::kQ3_K, 512), 220);
  EXPECT_EQ(row_bytes(StorageType::kQ4_K, 512), 288);
  EXPECT_EQ(row_bytes(StorageType::kQ5_K, 512), 352);
  EXPECT_EQ(row_bytes(StorageType::kQ6_K, 512), 420);
}

TEST(StorageType, RowsMustBeWholeBlocks) {
  EXPECT_EQ(row_bytes(StorageType::kQ4_0, 33), std::nullopt);
  EXPECT_EQ(row_bytes(StorageType::kQ4_K, 128), std::nullopt);
  EXPECT_EQ(row_bytes(StorageType::kF32, -1), std::nullopt);
  EXPECT_EQ(bytes_of(StorageType::kQ4_0, {32, 4}), std::nullopt);
  EXPECT_EQ(bytes_of(StorageType::kQ4_0, {4, 32}), 72);
}

TEST(StorageType, TensorBytesDoNotWrap) {
  EXPECT_EQ(bytes_of(StorageType::kF32, {}), 4);
  EXPECT_EQ(bytes_of(StorageType::kF32, {2, 3, 4}), 96);
  EXPECT_EQ(bytes_of(StorageType::kF32, {kMost}), std::nullopt);
  EXPECT_EQ(bytes_of(StorageType::kF64, {int64_t{1} << 32, int64_t{1} << 32}), std::nullopt);
  EXPECT_EQ(bytes_of(StorageType::kI8, {kMost}), kMost);
  EXPECT_EQ(bytes_of(StorageType::kF32, {-1, 4}), std::nullopt);
}

TEST(StorageType, AZeroExtentMakesTheTensorEmpty) {
  EXPECT_EQ(bytes_of(StorageType::kF32, {0}), 0);
  EXPECT_EQ(bytes_of(StorageType::kF32, {0, kMost}), std::nullopt);  // the row alone does not fit
  EXPECT_EQ(bytes_of(StorageType::kF32, {kMost, kMost, 0}), 0);
}

TEST(StorageType, NamesAndIdsAreUnique) {
  std::set<std::string_view> names;
  std::set<int> ids;
  for (const StorageInfo& info : storage_types()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    if (info.ggml_id >= 0) {
      EXPECT_TRUE(ids.insert(info.ggml_id).second) << info.name;
      EXPECT_EQ(find_storage_by_ggml_id(static_cast<uint32_t>(info.ggml_id)), &info);
    }
    if (!info.safetensors_name.empty()) {
      EXPECT_EQ(find_storage_by_safetensors_name(info.safetensors_name), &info);
    }
  }
}

TEST(StorageType, RefusedTypesHaveNames) {
  EXPECT_EQ(find_storage_by_ggml_id(23), nullptr);
  EXPECT_EQ(ggml_type_name(23), "IQ4_XS");
  EXPECT_EQ(ggml_type_name(12), "Q4_K");
  EXPECT_EQ(ggml_type_name(99), "");
  EXPECT_EQ(find_storage_by_safetensors_name("F4"), nullptr);
  EXPECT_EQ(find_storage_by_safetensors_name(""), nullptr);
}

}  // namespace
}  // namespace ashlar
