// Names of element types and the f32 to f16 rounding that is too long for a header.
// Nothing here touches tensors.
#include "tensor/dtype.h"

#include "base/check.h"

namespace ashlar {

std::string_view dtype_name(DType type) {
  switch (type) {
    case DType::kF32:
      return "f32";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kU8:
      return "u8";
  }
  CHECK(false);
}

F16 to_f16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return F16{static_cast<uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return F16{static_cast<uint16_t>(sign | 0x7c00u)};  // >= 65520
  if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 puts the f16 ulp (2^-24) at the last bit of the sum, which rounds for
    // us.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return F16{static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) - 0x3f000000u))};
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u;
  return F16{static_cast<uint16_t>(sign | (rounded >> 13))};
}

}  // namespace ashlar
