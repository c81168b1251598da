// Addresses come from mappings that nobody may touch: a mistake ends the process instead of
// computing with nothing.
#include "device/counting_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/align.h"
#include "base/check.h"

namespace ashlar {

namespace {

void unmap(void* data, size_t bytes) { ::munmap(data, std::max<size_t>(bytes, 1)); }

Result<Buffer> address_only(size_t bytes) {
  void* data = ::mmap(nullptr, std::max<size_t>(bytes, 1), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return fail(ErrorCode::kResourceExhausted, "cannot reserve {} addresses: {}", bytes,
                std::generic_category().message(errno));
  }
  return Buffer(data, bytes, unmap);
}

class NoEvent : public Event {
 public:
  bool done() override { return true; }
  Status wait() override { return {}; }
  double seconds_since(Event&) override { return 0; }
};

class NoRecording : public Recording {
 public:
  int64_t ops() const override { return 0; }
};

// Takes operations as one that records does, and drops them.
class NoStream : public Stream {
 public:
  explicit NoStream(Device& device) : device_(device) { defers_ = true; }
  Device& device() override { return device_; }
  Status synchronize() override { return {}; }
  std::unique_ptr<Event> record() override { return std::make_unique<NoEvent>(); }
  void begin_recording() override {}
  Result<std::unique_ptr<Recording>> end_recording() override {
    return std::make_unique<NoRecording>();
  }
  void replay(Recording&) override {}

 private:
  Device& device_;
};

}  // namespace

Result<Buffer> CountingDevice::allocate(size_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  if (size >= kSharingBytes) {
    own_bytes_ += round_up(size, kDeviceUnitBytes);
  } else {
    shared_bytes_ += round_up(std::max<int64_t>(size, 1), kSharedAlignment);
  }
  return address_only(bytes);
}

Result<Buffer> CountingDevice::allocate_host(size_t bytes) { return address_only(bytes); }

int64_t CountingDevice::counted_bytes() const {
  return own_bytes_ + round_up(shared_bytes_.load(), kDeviceUnitBytes);
}

DeviceMemory CountingDevice::memory() const {
  DeviceMemory memory = before_;
  const auto counted = static_cast<size_t>(counted_bytes());
  memory.free_bytes -= std::min(memory.free_bytes, counted);
  return memory;
}

std::unique_ptr<Stream> CountingDevice::new_stream() { return std::make_unique<NoStream>(*this); }

}  // namespace ashlar
