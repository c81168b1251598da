// Random packed weights of every storage type that the formats decode: for format tests and for
// tiny models.
//
// Codes and integer scales take all values; f16 scales are +-(1/16 .. 1/8) * 2^shift, so nothing
// overflows. With shift 0 the bytes of blocks of random codes are those of the format vectors.
#ifndef ASHLAR_TESTING_RANDOM_PACKED_H_
#define ASHLAR_TESTING_RANDOM_PACKED_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/storage_type.h"

namespace ashlar {

// `elements` values, a whole number of blocks. shift in [-10, 4].
std::vector<std::byte> random_packed(StorageType type, int64_t elements, uint64_t seed,
                                     int shift = 0);

// Types that random_packed makes: F32, F16, BF16 and all blocks.
std::vector<StorageType> weight_storage_types();

}  // namespace ashlar

#endif  // ASHLAR_TESTING_RANDOM_PACKED_H_
