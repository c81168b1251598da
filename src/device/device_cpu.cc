// The CPU device: plain aligned memory, work done at once.
// Large allocations ask for huge pages; nothing is touched before a kernel writes it.
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

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
  using Clock = std::chrono::steady_clock;
  bool done() override { return true; }
  Status wait() override { return {}; }
  double seconds_since(Event& earlier) override {
    return std::chrono::duration<double>(at_ - static_cast<CpuEvent&>(earlier).at_).count();
  }

 private:
  Clock::time_point at_ = Clock::now();
};

class CpuRecording : public Recording {
 public:
  int64_t ops() const override { return static_cast<int64_t>(calls.size()); }
  std::vector<std::function<void(Stream&)>> calls;
};

class CpuStream : public Stream {
 public:
  explicit CpuStream(Device& device) : device_(device) {}
  Device& device() override { return device_; }
  Status synchronize() override { return {}; }
  std::unique_ptr<Event> record() override {
    CHECK(!defers_);
    return std::make_unique<CpuEvent>();
  }

  void begin_recording() override {
    CHECK(!defers_);
    defers_ = true;
    recording_ = std::make_unique<CpuRecording>();
  }
  Result<std::unique_ptr<Recording>> end_recording() override {
    CHECK(defers_);
    defers_ = false;
    return std::move(recording_);
  }
  void replay(Recording& recording) override {
    CHECK(!defers_);
    for (const auto& call : static_cast<CpuRecording&>(recording).calls) call(*this);
  }
  void defer(std::function<void(Stream&)> call) override {
    recording_->calls.push_back(std::move(call));
  }

 private:
  Device& device_;
  std::unique_ptr<CpuRecording> recording_;
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
  void copy(Stream& stream, void* to, const void* from, size_t bytes) override {
    CHECK(!stream.defers());
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void copy_rows(Stream& stream, void* to, size_t to_pitch, const void* from, size_t from_pitch,
                 size_t row_bytes, size_t rows) override {
    for (size_t r = 0; r < rows; ++r) {
      copy(stream, static_cast<std::byte*>(to) + r * to_pitch,
           static_cast<const std::byte*>(from) + r * from_pitch, row_bytes);
    }
  }
  void clear(Stream& stream, void* data, size_t bytes) override {
    CHECK(!stream.defers());
    if (bytes > 0) std::memset(data, 0, bytes);
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
