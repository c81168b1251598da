// How fast a device reads memory with nothing else to do: the bound that a decode step is compared
// with. Each pass reads a whole buffer, so only a cache as large as the buffer helps, and then it
// would help the weights as well.
#ifndef ASHLAR_APPS_BENCH_READ_H_
#define ASHLAR_APPS_BENCH_READ_H_

#include <cstdint>
#include <memory>

#include "base/error.h"
#include "bench_report.h"
#include "device/device.h"
#include "kernels/read_bytes/read_bytes.h"

namespace ashlar {

// Of the buffer on a GPU: a run that read less says nothing about its memory.
constexpr int64_t kDeviceReadBytes = int64_t{8} << 30;

class ReadProbe {
 public:
  // device outlives it. The buffer is filled.
  static Result<std::unique_ptr<ReadProbe>> create(Device& device, int64_t bytes);

  // The fastest way's median of several passes. An error if a pass did not read everything.
  Result<ReadSpeed> measure();
  // One pass on any stream: a millisecond or two in which the host can run ahead of a GPU.
  void pass(Stream& stream, int way = 0);

 private:
  explicit ReadProbe(Device& device) : device_(device) {}
  Result<double> median_seconds(int way);
  Status check_sums() const;

  Device& device_;
  std::unique_ptr<Stream> stream_;
  Buffer data_;
  Buffer sums_;
  Buffer clock_;
  int64_t bytes_ = 0;
  uint32_t sum_ = 0;  // of one pass
  int64_t passes_ = 0;
};

int64_t second_level_cache_bytes();  // of one core
int64_t last_level_cache_bytes();

// The most memory this process ever had at once; 0 where the system does not say.
int64_t peak_resident_bytes();
int64_t available_memory_bytes();

}  // namespace ashlar

#endif  // ASHLAR_APPS_BENCH_READ_H_
