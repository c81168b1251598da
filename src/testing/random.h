// Random numbers for tests: splitmix64 from a seed, so that every run and every machine draws the
// same. Not for sampling tokens, which has a generator of its own.
#ifndef ASHLAR_TESTING_RANDOM_H_
#define ASHLAR_TESTING_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ashlar {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  uint8_t byte() { return static_cast<uint8_t>(next() >> 56); }
  int64_t below(int64_t limit) {
    return static_cast<int64_t>(next() % static_cast<uint64_t>(limit));
  }
  // In [-magnitude, magnitude), every value a multiple of magnitude * 2^-23.
  float symmetric(float magnitude) {
    return (static_cast<float>(next() >> 40) * 0x1p-23f - 1.0f) * magnitude;
  }

 private:
  uint64_t state_;
};

inline std::vector<float> random_floats(uint64_t seed, int64_t count, float magnitude) {
  Random random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = random.symmetric(magnitude);
  return values;
}

inline std::vector<std::byte> random_bytes(uint64_t seed, int64_t count) {
  Random random(seed);
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  for (std::byte& value : bytes) value = std::byte{random.byte()};
  return bytes;
}

}  // namespace ashlar

#endif  // ASHLAR_TESTING_RANDOM_H_
