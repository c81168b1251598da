// The queue of a LateDevice, its one stream and its events.
#include "testing/late_device.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/check.h"

namespace ashlar {

class LateEvent : public Event {
 public:
  LateEvent(LateDevice& device, int64_t count) : device_(device), count_(count) {}
  // Each question lets one more piece of work run.
  bool done() override {
    if (device_.hangs_) return false;
    if (device_.ran_ < count_) device_.run_until(device_.ran_ + 1);
    return device_.ran_ >= count_;
  }
  Status wait() override {
    device_.run_until(count_);
    return {};
  }
  double seconds_since(Event&) override { return 0; }

 private:
  LateDevice& device_;
  int64_t count_;
};

namespace {

// Memory of late devices, that of allocate_host() included, as long as it is allocated. Of the
// process, since a Buffer's way to free itself has no other context.
class KnownMemory {
 public:
  Result<Buffer> allocate(size_t bytes) {
    const size_t rounded = (bytes + 127) / 64 * 64;
    void* data = std::aligned_alloc(64, rounded);
    if (data == nullptr) return ashlar::fail(ErrorCode::kResourceExhausted, "out of memory");
    const std::lock_guard lock(mutex_);
    sizes_[static_cast<const std::byte*>(data)] = bytes;
    return Buffer(data, bytes, free_known);
  }
  bool has(const void* data) {
    const std::lock_guard lock(mutex_);
    const auto* byte = static_cast<const std::byte*>(data);
    auto it = sizes_.upper_bound(byte);
    if (it == sizes_.begin()) return false;
    --it;
    return byte < it->first + it->second;
  }

 private:
  static void free_known(void* data, size_t);

  std::mutex mutex_;
  std::map<const std::byte*, size_t> sizes_;  // by first byte
};

KnownMemory& known_memory() {
  static KnownMemory memory;
  return memory;
}

void KnownMemory::free_known(void* data, size_t) {
  {
    const std::lock_guard lock(known_memory().mutex_);
    known_memory().sizes_.erase(static_cast<const std::byte*>(data));
  }
  std::free(data);
}

class LateRecording : public Recording {
 public:
  int64_t ops() const override { return static_cast<int64_t>(calls.size()); }
  std::vector<std::function<void(Stream&)>> calls;
};

}  // namespace

class LateStream : public Stream {
 public:
  explicit LateStream(LateDevice& device) : device_(device) { defers_ = true; }
  Device& device() override { return device_; }
  Status synchronize() override {
    CHECK(recording_ == nullptr);
    device_.run_until(device_.issued_);
    return {};
  }
  std::unique_ptr<Event> record() override {
    CHECK(recording_ == nullptr);
    return std::make_unique<LateEvent>(device_, device_.issued_);
  }
  void begin_recording() override { recording_ = std::make_unique<LateRecording>(); }
  Result<std::unique_ptr<Recording>> end_recording() override { return std::move(recording_); }
  void replay(Recording& recording) override {
    for (const auto& call : static_cast<LateRecording&>(recording).calls) issue(call);
  }
  void defer(std::function<void(Stream&)> call) override {
    if (recording_ != nullptr) {
      recording_->calls.push_back(std::move(call));
    } else {
      issue(std::move(call));
    }
  }
  void issue(std::function<void(Stream&)> call) {
    CHECK(recording_ == nullptr);
    device_.waiting_.push_back(std::move(call));
    ++device_.issued_;
  }

 private:
  LateDevice& device_;
  std::unique_ptr<LateRecording> recording_;
};

LateDevice::LateDevice(int threads) : cpu_(new_cpu_device(threads)), inner_(cpu_->new_stream()) {}
LateDevice::~LateDevice() = default;

void LateDevice::run_until(int64_t count) {
  for (; ran_ < count; ++ran_) {
    waiting_.front()(*inner_);
    waiting_.pop_front();
  }
}

Result<Buffer> LateDevice::allocate(size_t bytes) { return known_memory().allocate(bytes); }

Result<Buffer> LateDevice::allocate_host(size_t bytes) { return allocate(bytes); }

std::unique_ptr<Stream> LateDevice::new_stream() { return std::make_unique<LateStream>(*this); }

void LateDevice::copy(Stream& stream, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  LateStream& late = static_cast<LateStream&>(stream);
  if (!known_memory().has(to)) {  // ordinary host memory is filled when the call returns
    CHECK(late.synchronize());
    std::memcpy(to, from, bytes);
  } else if (known_memory().has(from)) {
    late.issue([to, from, bytes](Stream&) { std::memcpy(to, from, bytes); });
  } else {
    const auto* begin = static_cast<const std::byte*>(from);
    std::vector<std::byte> kept(begin, begin + bytes);
    late.issue(
        [to, kept = std::move(kept)](Stream&) { std::memcpy(to, kept.data(), kept.size()); });
  }
}

void LateDevice::copy_rows(Stream& stream, void* to, size_t to_pitch, const void* from,
                           size_t from_pitch, size_t row_bytes, size_t rows) {
  for (size_t r = 0; r < rows; ++r) {
    copy(stream, static_cast<std::byte*>(to) + r * to_pitch,
         static_cast<const std::byte*>(from) + r * from_pitch, row_bytes);
  }
}

void LateDevice::clear(Stream& stream, void* data, size_t bytes) {
  static_cast<LateStream&>(stream).issue([data, bytes](Stream&) { std::memset(data, 0, bytes); });
}

}  // namespace ashlar
