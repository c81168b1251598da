// Element types of tensors in memory that operations read and write.
//
// Packed weight storage (Q4_K, EXL3, ...) is not a DType: it belongs to checkpoint/ (StorageType)
// and formats/. The 16-bit conversions are the only ones in the project; both round to nearest,
// ties to even.
#ifndef ASHLAR_TENSOR_DTYPE_H_
#define ASHLAR_TENSOR_DTYPE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ashlar {

enum class DType : uint8_t { kF32, kF16, kBF16, kI32, kI64, kU8 };

std::string_view dtype_name(DType type);
constexpr size_t dtype_bytes(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kI64:
      return 8;
    case DType::kU8:
      return 1;
  }
  return 0;
}

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<F16> {
  static constexpr DType value = DType::kF16;
};
template <>
struct DTypeOf<BF16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};

inline float to_float(BF16 v) { return std::bit_cast<float>(static_cast<uint32_t>(v.bits) << 16); }

// Subnormals, infinities and NaN included.
inline float to_float(F16 v) {
  const uint32_t sign = static_cast<uint32_t>(v.bits & 0x8000u) << 16;
  const uint32_t magnitude = v.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  }
  // 2^112 rescales the exponent and makes subnormals exact.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
}

inline BF16 to_bf16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return BF16{0x7fc0};
  return BF16{static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

F16 to_f16(float v);

}  // namespace ashlar

#endif  // ASHLAR_TENSOR_DTYPE_H_
