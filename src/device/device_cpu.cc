// The CPU device: plain aligned memory, work done at once.
// Large allocations ask for huge pages; nothing is touched before a kernel writes it.
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/align.h"
#include "base/check.h"
#include "device/cores.h"
#include "device/device.h"
#include "device/slabs.h"

namespace ashlar {

namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;

void free_host(void* data, size_t) { std::free(data); }

class CpuEvent : public Event {
 public:
  bool done() override { return true; }
  Status wait() override { return {}; }
};

class CpuStream : public Stream {
 public:
  explicit CpuStream(Device& device) : device_(device) {}
  Device& device() override { return device_; }
  Status synchronize() override { return {}; }
  std::unique_ptr<Event> record() override { return std::make_unique<CpuEvent>(); }

 private:
  Device& device_;
};

class CpuDevice : public Device {
 public:
  explicit CpuDevice(int threads) : pool_(threads) {}
  Backend backend() const override { return Backend::kCpu; }
  std::string name() const override { return fmt::format("cpu: {} threads", pool_.threads()); }

  Result<Buffer> allocate(size_t bytes) override {
    if (bytes >= Slabs::kSmallest && bytes <= Slabs::kLargest) {
      Buffer buffer = slabs_.allocate(bytes);
      if (buffer.data() != nullptr) return buffer;
    }
    const size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void* data =
        rounded < bytes ? nullptr : std::aligned_alloc(alignment, std::max(rounded, alignment));
    if (data == nullptr) {
      return fail(ErrorCode::kResourceExhausted,
                  "out of memory: {} bytes could not be allocated on the cpu", bytes);
    }
    if (alignment == kHugePage) madvise(data, rounded, MADV_HUGEPAGE);
    return Buffer(data, bytes, free_host);
  }

  std::unique_ptr<Stream> new_stream() override { return std::make_unique<CpuStream>(*this); }
  void copy(Stream&, void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  ThreadPool* thread_pool() override { return &pool_; }

 private:
  ThreadPool pool_;
  Slabs slabs_;
};

// Cores that the control group's quota allows, rounded up; 0 without one (or with version 1 of it).
int quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return std::max(1, static_cast<int>(std::ceil(quota / period)));
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  const int allowed = sched_getaffinity(0, sizeof(set), &set) == 0
                          ? CPU_COUNT(&set)
                          : static_cast<int>(std::thread::hardware_concurrency());
  const int quota = quota_cores();
  return std::max(1, quota > 0 ? std::min(quota, allowed) : allowed);
}

std::string_view backend_name(Backend backend) { return backend == Backend::kCpu ? "cpu" : "cuda"; }

std::unique_ptr<Device> new_cpu_device(int threads) {
  CHECK_GE(threads, 0);
  return std::make_unique<CpuDevice>(threads == 0 ? usable_cores() : threads);
}

}  // namespace ashlar
