// The reciprocal root mean square of one row, the only definition of it: rms_norm and the query and
// key norms include this file.
//
// The sum of squares is kept in 16 chains, element i in chain i mod 16, each an FMA chain in
// ascending order; the chains fold in halves, 16 to 8 to 4 to 2 to 1. The tree depends on the row's
// length alone, and 16 chains are what vectors of 8 and of 16 lanes can both keep, so the bits do
// not depend on the instruction set either.
#ifndef ASHLAR_KERNELS_RMS_NORM_ROW_NORM_H_
#define ASHLAR_KERNELS_RMS_NORM_ROW_NORM_H_

#include <cmath>
#include <cstdint>

#include "kernels/math/activation.h"

namespace ashlar {

constexpr int kSumChains = 16;

// Folds the 16 chains into chains[0]; the only order in which they are ever added.
inline float fold_chains(float* chains) {
  for (int half = kSumChains / 2; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) chains[j] += chains[j + half];
  }
  return chains[0];
}

inline float sum_of_squares(const float* x, int64_t count) {
  float chains[kSumChains] = {};
  int64_t i = 0;
  for (; i + kSumChains <= count; i += kSumChains) {
    for (int j = 0; j < kSumChains; ++j) chains[j] = std::fma(x[i + j], x[i + j], chains[j]);
  }
  for (int j = 0; i + j < count; ++j) chains[j] = std::fma(x[i + j], x[i + j], chains[j]);
  return fold_chains(chains);
}

// 1 / sqrt(mean of squares + eps); the division by the length rounds once.
inline float inverse_rms(const float* x, int64_t count, float eps) {
  const float mean = sum_of_squares(x, count) / static_cast<float>(count);
  return rsqrt(mean + eps);
}

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_RMS_NORM_ROW_NORM_H_
