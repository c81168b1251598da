// The numbers of synthetic weights: a bf16 value for each (seed, tensor name, element index), the
// same bits on every machine, so that a device makes its part of a tensor by itself
// (kernels/fill_synthetic). Host and device compile the functions below; there is no second form.
//
//   key   = mix(fnv1a64(name) + mix(seed))
//   word  = mix(key + index * 0x9e3779b97f4a7c15)           index: row-major in the whole tensor
//   sum   = the four 16-bit quarters of word, added, - 131070        roughly Gaussian, in ±131070
//   value = bf16, to nearest even, of (mean + scale * sum) in f32: one product, one sum, no FMA
//
// mix is the finaliser of splitmix64 (Steele, Lea and Flood 2014). Only integers and two f32
// operations: compile it without contraction. What mean and scale a tensor gets is in
// checkpoint/synthetic_checkpoint.cc. This is no random generator for sampling.
#ifndef ASHLAR_TENSOR_SYNTHETIC_VALUES_H_
#define ASHLAR_TENSOR_SYNTHETIC_VALUES_H_

#include <bit>
#include <cstdint>
#include <string_view>

namespace ashlar {

// The deviation of the sum of four uniform 16-bit numbers: sqrt((2^32 - 1) / 3).
inline constexpr double kSyntheticSumDeviation = 37837.22723720648;

struct SyntheticValues {
  uint64_t key = 0;
  float mean = 0.0f;
  float scale = 0.0f;  // deviation / kSyntheticSumDeviation
};

constexpr uint64_t synthetic_mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

constexpr uint64_t synthetic_key(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return synthetic_mix(hash + synthetic_mix(seed));
}

// The bits of a bf16.
constexpr uint16_t synthetic_bf16(const SyntheticValues& values, uint64_t index) {
  const uint64_t word = synthetic_mix(values.key + index * 0x9e3779b97f4a7c15u);
  const int32_t sum =
      static_cast<int32_t>(word & 0xffff) + static_cast<int32_t>(word >> 16 & 0xffff) +
      static_cast<int32_t>(word >> 32 & 0xffff) + static_cast<int32_t>(word >> 48) - 131070;
  const float scaled = values.scale * static_cast<float>(sum);
  const uint32_t bits = std::bit_cast<uint32_t>(values.mean + scaled);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace ashlar

#endif  // ASHLAR_TENSOR_SYNTHETIC_VALUES_H_
