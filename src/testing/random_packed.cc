// Random bytes in which the scale fields of each block are then made moderate.
// Where those fields lie is stated here once more on purpose: a test should not ask the decoder
// under test.
#include "testing/random_packed.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/dtype.h"
#include "testing/random.h"

namespace ashlar {

namespace {

struct HalfFields {
  StorageType type;
  std::vector<int> offsets;
};

const std::vector<HalfFields>& half_fields() {
  static const std::vector<HalfFields> fields = {
      {StorageType::kQ4_0, {0}},    {StorageType::kQ4_1, {0, 2}}, {StorageType::kQ5_0, {0}},
      {StorageType::kQ5_1, {0, 2}}, {StorageType::kQ8_0, {0}},    {StorageType::kQ2_K, {80, 82}},
      {StorageType::kQ3_K, {108}},  {StorageType::kQ4_K, {0, 2}}, {StorageType::kQ5_K, {0, 2}},
      {StorageType::kQ6_K, {208}},  {StorageType::kIQ4_NL, {0}},
  };
  return fields;
}

std::vector<std::byte> random_numbers(StorageType type, int64_t elements, uint64_t seed,
                                      int shift) {
  const std::vector<float> values = random_floats(seed, elements, std::ldexp(1.0f, shift));
  const auto size = static_cast<size_t>(storage_info(type).block_bytes);
  std::vector<std::byte> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    const F16 half = to_f16(values[i]);
    const BF16 brain = to_bf16(values[i]);
    const void* from = type == StorageType::kF32   ? static_cast<const void*>(&values[i])
                       : type == StorageType::kF16 ? static_cast<const void*>(&half)
                                                   : static_cast<const void*>(&brain);
    std::memcpy(bytes.data() + i * size, from, size);
  }
  return bytes;
}

}  // namespace

std::vector<std::byte> random_packed(StorageType type, int64_t elements, uint64_t seed, int shift) {
  if (!is_blocked(type)) return random_numbers(type, elements, seed, shift);
  const StorageInfo& info = storage_info(type);
  CHECK_EQ(elements % info.block_elements, 0);
  const int64_t blocks = elements / info.block_elements;
  std::vector<std::byte> bytes = random_bytes(seed, blocks * info.block_bytes);
  auto* data = reinterpret_cast<uint8_t*>(bytes.data());
  for (int64_t i = 0; i < blocks; ++i, data += info.block_bytes) {
    if (type == StorageType::kMXFP4) data[0] = static_cast<uint8_t>(data[0] % 32 + 111 + shift);
    for (const HalfFields& fields : half_fields()) {
      if (fields.type != type) continue;
      for (const int offset : fields.offsets) {
        // Sign and mantissa as drawn, exponent 11: 2^-4 <= |value| < 2^-3.
        data[offset + 1] = static_cast<uint8_t>((data[offset + 1] & 0x83) | (11 + shift) << 2);
      }
    }
  }
  return bytes;
}

std::vector<StorageType> weight_storage_types() {
  std::vector<StorageType> types = {StorageType::kF32, StorageType::kF16, StorageType::kBF16};
  for (const StorageInfo& info : storage_types()) {
    if (info.block_elements > 1) types.push_back(info.type);
  }
  return types;
}

}  // namespace ashlar
