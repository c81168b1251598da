// The table of storage types. Sizes are those of the GGML and safetensors file formats.
// Adding a type here makes the readers accept it; a format in formats/ must then decode it.
#include "checkpoint/storage_type.h"

#include <array>

#include "base/align.h"
#include "base/check.h"

namespace ashlar {
namespace {

constexpr std::array<StorageInfo, 24> kTypes = {{
    {StorageType::kF32, "F32", "F32", 0, 1, 4},
    {StorageType::kF16, "F16", "F16", 1, 1, 2},
    {StorageType::kBF16, "BF16", "BF16", 30, 1, 2},
    {StorageType::kF64, "F64", "F64", 28, 1, 8},
    {StorageType::kI8, "I8", "I8", 24, 1, 1},
    {StorageType::kI16, "I16", "I16", 25, 1, 2},
    {StorageType::kI32, "I32", "I32", 26, 1, 4},
    {StorageType::kI64, "I64", "I64", 27, 1, 8},
    {StorageType::kU8, "U8", "U8", -1, 1, 1},
    {StorageType::kBool, "BOOL", "BOOL", -1, 1, 1},
    {StorageType::kF8E4M3, "F8_E4M3", "F8_E4M3", -1, 1, 1},
    {StorageType::kF8E5M2, "F8_E5M2", "F8_E5M2", -1, 1, 1},
    {StorageType::kQ4_0, "Q4_0", "", 2, 32, 18},
    {StorageType::kQ4_1, "Q4_1", "", 3, 32, 20},
    {StorageType::kQ5_0, "Q5_0", "", 6, 32, 22},
    {StorageType::kQ5_1, "Q5_1", "", 7, 32, 24},
    {StorageType::kQ8_0, "Q8_0", "", 8, 32, 34},
    {StorageType::kQ2_K, "Q2_K", "", 10, 256, 84},
    {StorageType::kQ3_K, "Q3_K", "", 11, 256, 110},
    {StorageType::kQ4_K, "Q4_K", "", 12, 256, 144},
    {StorageType::kQ5_K, "Q5_K", "", 13, 256, 176},
    {StorageType::kQ6_K, "Q6_K", "", 14, 256, 210},
    {StorageType::kIQ4_NL, "IQ4_NL", "", 20, 32, 18},
    {StorageType::kMXFP4, "MXFP4", "", 39, 32, 17},
}};

constexpr bool table_follows_enum() {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (static_cast<size_t>(kTypes[i].type) != i) return false;
  }
  return true;
}
static_assert(table_follows_enum());

struct GgmlName {
  uint32_t id;
  std::string_view name;
};

// Types that GGUF files may hold and that are refused, so that the refusal can say their name.
constexpr GgmlName kRefusedGgmlTypes[] = {
    {4, "Q4_2"},    {5, "Q4_3"},     {9, "Q8_1"},        {15, "Q8_K"},       {16, "IQ2_XXS"},
    {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},      {21, "IQ3_S"},      {22, "IQ2_S"},
    {23, "IQ4_XS"}, {29, "IQ1_M"},   {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},   {33, "Q4_0_8_8"},
    {34, "TQ1_0"},  {35, "TQ2_0"},   {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"},
    {40, "NVFP4"},
};

}  // namespace

std::span<const StorageInfo> storage_types() { return kTypes; }

const StorageInfo& storage_info(StorageType type) {
  const auto index = static_cast<size_t>(type);
  CHECK_LT(index, kTypes.size());
  return kTypes[index];
}

const StorageInfo* find_storage_by_ggml_id(uint32_t id) {
  for (const StorageInfo& info : kTypes) {
    if (info.ggml_id >= 0 && static_cast<uint32_t>(info.ggml_id) == id) return &info;
  }
  return nullptr;
}

const StorageInfo* find_storage_by_safetensors_name(std::string_view name) {
  if (name.empty()) return nullptr;
  for (const StorageInfo& info : kTypes) {
    if (info.safetensors_name == name) return &info;
  }
  return nullptr;
}

std::string_view ggml_type_name(uint32_t id) {
  if (const StorageInfo* info = find_storage_by_ggml_id(id)) return info->name;
  for (const GgmlName& refused : kRefusedGgmlTypes) {
    if (refused.id == id) return refused.name;
  }
  return {};
}

std::optional<int64_t> row_bytes(StorageType type, int64_t columns) {
  const StorageInfo& info = storage_info(type);
  if (columns < 0 || columns % info.block_elements != 0) return std::nullopt;
  return checked_multiply(columns / info.block_elements, info.block_bytes);
}

std::optional<int64_t> tensor_bytes(StorageType type, std::span<const int64_t> shape) {
  std::optional<int64_t> bytes = row_bytes(type, shape.empty() ? 1 : shape.back());
  if (shape.empty()) return bytes;
  bool empty = shape.back() == 0;
  for (const int64_t extent : shape.first(shape.size() - 1)) {
    if (extent < 0) return std::nullopt;
    empty = empty || extent == 0;
    if (bytes) bytes = checked_multiply(*bytes, extent);
  }
  // A zero extent makes the size zero whatever the others are, even where an earlier product did
  // not fit.
  if (empty && row_bytes(type, shape.back())) return 0;
  return bytes;
}

}  // namespace ashlar
