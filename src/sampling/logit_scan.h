// Passes over a run of logits, in the widest vectors of the machine. Their results are maxima,
// integer sums and positions, so no instruction set, block size or order can change them.
#ifndef ASHLAR_SAMPLING_LOGIT_SCAN_H_
#define ASHLAR_SAMPLING_LOGIT_SCAN_H_

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/math/activation.h"

namespace ashlar {

constexpr int kWeightBits = 40;
constexpr uint64_t kFullWeight = uint64_t{1} << kWeightBits;  // of the likeliest token

// round(2^40 * w), ties to even, for 0 <= w <= 1, beside kWeightOffset: adding 2^52 leaves the
// integer in the low bits of the sum. The product is exact, so an FMA rounds as product and sum do.
constexpr uint64_t kWeightOffset = std::bit_cast<uint64_t>(0x1p52);
[[gnu::always_inline]] inline uint64_t offset_weight(float w) {
  return std::bit_cast<uint64_t>(
      std::fma(static_cast<double>(w), static_cast<double>(kFullWeight), 0x1p52));
}

// The weight of a logit; scale = log2(e) / temperature. Logits below 2^-64 of the maximum round to
// 0 as those below 2^-41 do.
[[gnu::always_inline]] inline uint64_t logit_weight(float x, float max, float scale) {
  return offset_weight(exp2_of_weight((x - max) * scale)) - kWeightOffset;
}

// The maximum of x[0, count); sets `sound` to false if there is a NaN or +inf.
float max_of_logits(const float* x, int64_t count, bool& sound);

// The sum of the weights of x[0, count).
uint64_t sum_of_weights(const float* x, int64_t count, float max, float scale);

// weights[i] = the weight of x[i].
void weights_of_logits(const float* x, int64_t count, float max, float scale, uint64_t* weights);

// Writes the indices of elements >= least, ascending, to `at` and the elements to `found`, and
// returns their number. Both have room for count + 16.
int64_t find_at_least(const float* x, int64_t count, float least, int32_t* at, float* found);

}  // namespace ashlar

#endif  // ASHLAR_SAMPLING_LOGIT_SCAN_H_
