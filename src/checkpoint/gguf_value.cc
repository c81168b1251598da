// Reading one metadata value as the kind that the caller wants.
// Bytes were checked by the parser: whatever lies in a GgufValue is complete and of a known type.
#include <cstring>
#include <limits>

#include "base/check.h"
#include "checkpoint/gguf.h"
#include "checkpoint/quote.h"

namespace ashlar {
namespace {

template <class T>
T load(std::span<const std::byte> raw, size_t index) {
  T value;
  CHECK_LE((index + 1) * sizeof(T), raw.size());
  std::memcpy(&value, raw.data() + index * sizeof(T), sizeof(T));
  return value;
}

std::optional<int64_t> integer_at(GgufType type, std::span<const std::byte> raw, size_t index) {
  switch (type) {
    case GgufType::kU8:
      return load<uint8_t>(raw, index);
    case GgufType::kI8:
      return load<int8_t>(raw, index);
    case GgufType::kU16:
      return load<uint16_t>(raw, index);
    case GgufType::kI16:
      return load<int16_t>(raw, index);
    case GgufType::kU32:
      return load<uint32_t>(raw, index);
    case GgufType::kI32:
      return load<int32_t>(raw, index);
    case GgufType::kI64:
      return load<int64_t>(raw, index);
    case GgufType::kU64: {
      const auto value = load<uint64_t>(raw, index);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> float_at(GgufType type, std::span<const std::byte> raw, size_t index) {
  if (type == GgufType::kF32) return load<float>(raw, index);
  if (type == GgufType::kF64) return load<double>(raw, index);
  if (type == GgufType::kU64) return static_cast<double>(load<uint64_t>(raw, index));
  const std::optional<int64_t> integer = integer_at(type, raw, index);
  if (!integer) return std::nullopt;
  return static_cast<double>(*integer);
}

}  // namespace

std::string_view gguf_type_name(GgufType type) {
  switch (type) {
    case GgufType::kU8:
      return "u8";
    case GgufType::kI8:
      return "i8";
    case GgufType::kU16:
      return "u16";
    case GgufType::kI16:
      return "i16";
    case GgufType::kU32:
      return "u32";
    case GgufType::kI32:
      return "i32";
    case GgufType::kF32:
      return "f32";
    case GgufType::kBool:
      return "bool";
    case GgufType::kString:
      return "string";
    case GgufType::kArray:
      return "array";
    case GgufType::kU64:
      return "u64";
    case GgufType::kI64:
      return "i64";
    case GgufType::kF64:
      return "f64";
  }
  return "unknown type";
}

std::optional<int64_t> GgufValue::as_integer() const { return integer_at(type_, raw_, 0); }

std::optional<double> GgufValue::as_float() const { return float_at(type_, raw_, 0); }

std::optional<bool> GgufValue::as_bool() const {
  if (type_ != GgufType::kBool) return std::nullopt;
  return load<uint8_t>(raw_, 0) != 0;
}

std::optional<std::string_view> GgufValue::as_string() const {
  if (type_ != GgufType::kString) return std::nullopt;
  return string_;
}

const std::vector<std::string_view>* GgufValue::as_strings() const { return strings_.get(); }

std::optional<std::vector<int64_t>> GgufValue::as_integers() const {
  if (!is_array() || strings_ != nullptr) return std::nullopt;
  std::vector<int64_t> out(count_);
  for (size_t i = 0; i < count_; ++i) {
    const std::optional<int64_t> value = integer_at(element_type_, raw_, i);
    if (!value) return std::nullopt;
    out[i] = *value;
  }
  return out;
}

std::optional<std::vector<float>> GgufValue::as_floats() const {
  if (!is_array() || strings_ != nullptr || element_type_ == GgufType::kBool) return std::nullopt;
  std::vector<float> out(count_);
  if (element_type_ == GgufType::kF32) {
    if (count_ > 0) std::memcpy(out.data(), raw_.data(), count_ * sizeof(float));
    return out;
  }
  for (size_t i = 0; i < count_; ++i) {
    out[i] = static_cast<float>(*float_at(element_type_, raw_, i));
  }
  return out;
}

std::optional<std::vector<bool>> GgufValue::as_bools() const {
  if (!is_array() || element_type_ != GgufType::kBool) return std::nullopt;
  std::vector<bool> out(count_);
  for (size_t i = 0; i < count_; ++i) out[i] = load<uint8_t>(raw_, i) != 0;
  return out;
}

std::string GgufValue::describe() const {
  if (is_array()) return fmt::format("array of {} {}", count_, gguf_type_name(element_type_));
  if (type_ == GgufType::kString) return fmt::format("string {}", quote_name(string_));
  if (type_ == GgufType::kBool) return fmt::format("bool {}", *as_bool());
  if (type_ == GgufType::kU64) return fmt::format("u64 {}", load<uint64_t>(raw_, 0));
  if (const std::optional<int64_t> integer = as_integer()) {
    return fmt::format("{} {}", gguf_type_name(type_), *integer);
  }
  return fmt::format("{} {}", gguf_type_name(type_), *as_float());
}

}  // namespace ashlar
