// Integer arithmetic that sizes need: rounding up, and products that must not wrap.
// Sizes that come from a file go through checked_multiply; nothing here knows what is being sized.
#ifndef ASHLAR_BASE_ALIGN_H_
#define ASHLAR_BASE_ALIGN_H_

#include <cstdint>
#include <optional>

namespace ashlar {

constexpr int64_t divide_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }
constexpr int64_t round_up(int64_t value, int64_t unit) { return divide_up(value, unit) * unit; }

// a * b, or nothing when it does not fit in 63 bits. Both must be non-negative.
constexpr std::optional<int64_t> checked_multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

constexpr std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

}  // namespace ashlar

#endif  // ASHLAR_BASE_ALIGN_H_
