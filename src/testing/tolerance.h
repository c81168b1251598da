// How far a computed value may lie from the exact one: the one place where tests take a tolerance
// for sums from.
//
// The bound is the standard one for a sum of products in floating point: every rounding on the way
// of an addend changes the result by at most epsilon times the sum of magnitudes, which is at most
// |x| |w| (Cauchy and Schwarz). It is a bound, not an estimate; a kernel that reads one wrong
// element breaks it by orders of magnitude.
#ifndef ASHLAR_TESTING_TOLERANCE_H_
#define ASHLAR_TESTING_TOLERANCE_H_

#include <cmath>
#include <cstdint>
#include <span>

namespace ashlar {

constexpr double kF32Epsilon = 0x1p-24;  // half an ulp of 1: one rounding
constexpr double kF16Epsilon = 0x1p-11;
constexpr double kBF16Epsilon = 0x1p-8;

struct DotTolerance {
  double x_norm = 0;  // Euclidean norms of the operands
  double w_norm = 0;
  int64_t length = 0;          // products in the sum
  int64_t chains = 1;          // that the sum is kept in before they are folded pairwise
  double operand_epsilon = 0;  // rounding of the operands, relative, both together
  double accumulator_epsilon = kF32Epsilon;
};

// |computed - exact| is at most this.
inline double dot_tolerance(const DotTolerance& t) {
  const double chain = std::ceil(static_cast<double>(t.length) / static_cast<double>(t.chains));
  const double roundings = chain + std::ceil(std::log2(static_cast<double>(t.chains))) + 1;
  return t.x_norm * t.w_norm * (roundings * t.accumulator_epsilon + t.operand_epsilon);
}

inline double norm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

}  // namespace ashlar

#endif  // ASHLAR_TESTING_TOLERANCE_H_
