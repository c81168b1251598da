// CountingDevice: stands in for a device while a model is built to see what it would take there.
// Allocations are counted and get addresses without memory; copies and operations do nothing.
//
// So the weights of a model are known to the byte before any of them is read, by the very code that
// will allocate them. Only what is never looked at again may be built on it.
#ifndef ASHLAR_DEVICE_COUNTING_DEVICE_H_
#define ASHLAR_DEVICE_COUNTING_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "device/device.h"

namespace ashlar {

// How a device with memory of its own hands it out: whole units, which small buffers share.
constexpr int64_t kDeviceUnitBytes = int64_t{2} << 20;
constexpr int64_t kSharingBytes = int64_t{1} << 20;  // from here on a buffer has its own units
constexpr int64_t kSharedAlignment = 512;

class CountingDevice : public Device {
 public:
  // Says what the real one would say; it must outlive this.
  explicit CountingDevice(Device& real) : real_(real), before_(real.memory()) {}

  Backend backend() const override { return real_.backend(); }
  std::string name() const override { return real_.name(); }
  Result<Buffer> allocate(size_t bytes) override;
  Result<Buffer> allocate_host(size_t bytes) override;
  // As if what was counted were taken; it is never given back.
  DeviceMemory memory() const override;
  std::unique_ptr<Stream> new_stream() override;
  void copy(Stream&, void*, const void*, size_t) override {}
  void copy_rows(Stream&, void*, size_t, const void*, size_t, size_t, size_t) override {}
  void clear(Stream&, void*, size_t) override {}
  ThreadPool* thread_pool() override { return real_.thread_pool(); }

  int64_t counted_bytes() const;

 private:
  Device& real_;
  DeviceMemory before_;
  std::atomic<int64_t> own_bytes_ = 0;     // whole units
  std::atomic<int64_t> shared_bytes_ = 0;  // of small buffers
};

}  // namespace ashlar

#endif  // ASHLAR_DEVICE_COUNTING_DEVICE_H_
