// Passes over a run of logits, in the widest vectors of the machine. Their results are maxima,
// integer sums and positions, so no instruction set, block size or order can change them.
#ifndef ASHLAR_SAMPLING_LOGIT_SCAN_H_
#define ASHLAR_SAMPLING_LOGIT_SCAN_H_

#include <bit>
#include <cstdint>

#include "kernels/math/activation.h"

namespace ashlar {

constexpr int kWeightBits = 40;
constexpr uint64_t kFullWeight = uint64_t{1} << kWeightBits;  // of the likeliest token

// round(2^40 * w), ties to even, for 0 <= w <= 1: adding 2^52 leaves the integer in the low bits of
// the sum.
[[gnu::always_inline]] inline uint64_t fixed_weight(float w) {
  const double shifted = static_cast<double>(w) * static_cast<double>(kFullWeight) + 0x1p52;
  return std::bit_cast<uint64_t>(shifted) - std::bit_cast<uint64_t>(0x1p52);
}

// The weight of a logit; scale = log2(e) / temperature.
[[gnu::always_inline]] inline uint64_t logit_weight(float x, float max, float scale) {
  return fixed_weight(exp2((x - max) * scale));
}

// The maximum of x[0, count); sets `sound` to false if there is a NaN or +inf.
float max_of_logits(const float* x, int64_t count, bool& sound);

// The sum of the weights of x[0, count).
uint64_t sum_of_weights(const float* x, int64_t count, float max, float scale);

// weights[i] = the weight of x[i].
void weights_of_logits(const float* x, int64_t count, float max, float scale, uint64_t* weights);

// Writes the indices of elements >= least, ascending, to `to` (room for count) and returns their
// number.
int64_t find_at_least(const float* x, int64_t count, float least, int32_t* to);

}  // namespace ashlar

#endif  // ASHLAR_SAMPLING_LOGIT_SCAN_H_
