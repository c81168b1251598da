// Philox4x32-10, the counter-based random number generator of Salmon, Moraes, Dror and Shaw,
// "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). A number is a pure function of its
// counter and key, so it does not matter in which step, row or batch a token is drawn.
#ifndef ASHLAR_SAMPLING_PHILOX_H_
#define ASHLAR_SAMPLING_PHILOX_H_

#include <array>
#include <cstdint>

namespace ashlar {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// What a random number is for; two purposes never share one.
enum class RandomPurpose : uint32_t { kToken = 0, kDraft = 1 };

// 64 random bits of (seed, choice, absolute position, purpose).
constexpr uint64_t random_bits(uint64_t seed, uint32_t choice, int64_t position,
                               RandomPurpose purpose) {
  const PhiloxCounter bits =
      philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), choice,
                  static_cast<uint32_t>(purpose)},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return uint64_t{bits[1]} << 32 | bits[0];
}

}  // namespace ashlar

#endif  // ASHLAR_SAMPLING_PHILOX_H_
