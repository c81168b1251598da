// How fast this device's threads read memory, with nothing else to do: the bound that a decode step
// is compared with. Each pass reads the whole buffer, so only a cache as large as the buffer helps,
// and then it would help the weights as well.
#ifndef ASHLAR_APPS_BENCH_READ_H_
#define ASHLAR_APPS_BENCH_READ_H_

#include <cstdint>

#include "base/error.h"
#include "bench_report.h"
#include "device/device.h"

namespace ashlar {

// The median of several passes over a buffer of so many bytes.
Result<ReadSpeed> measure_read(Device& device, int64_t bytes);

int64_t second_level_cache_bytes();  // of one core
int64_t last_level_cache_bytes();

// The most memory this process ever had at once; 0 where the system does not say.
int64_t peak_resident_bytes();
int64_t available_memory_bytes();

}  // namespace ashlar

#endif  // ASHLAR_APPS_BENCH_READ_H_
