// Times of work on a stream, by events of its device: what the host does in between does not count
// as long as it stays ahead.
#ifndef ASHLAR_APPS_BENCH_TIME_H_
#define ASHLAR_APPS_BENCH_TIME_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/error.h"
#include "device/device.h"

namespace ashlar {

// The seconds of each of `count` runs, one behind the other. run() issues; it must have run before.
Result<std::vector<double>> time_runs(Stream& stream, int64_t count,
                                      const std::function<void()>& run);

// How many runs of `seconds` fit into `wanted` seconds, within the limits.
int64_t runs_for(double wanted, double seconds, int64_t least, int64_t most);

// issue() issues operations, which ran on this stream before.
Result<std::unique_ptr<Recording>> record_work(Stream& stream, const std::function<void()>& issue);

}  // namespace ashlar

#endif  // ASHLAR_APPS_BENCH_TIME_H_
