// LateDevice: a CPU device that runs behind the host as a GPU does, and as late as it may: work and
// copies wait in the stream until somebody asks an event of it. Host memory that is reused too
// early, a value that the host takes from its own copy, or a missing wait then shows as a wrong
// answer, on any machine.
//
// Only for what is made of operations and copies: whoever touches device memory directly sees it as
// it was. One stream.
#ifndef ASHLAR_TESTING_LATE_DEVICE_H_
#define ASHLAR_TESTING_LATE_DEVICE_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "device/device.h"

namespace ashlar {

class LateDevice : public Device {
 public:
  explicit LateDevice(int threads);
  ~LateDevice() override;

  Backend backend() const override { return Backend::kCpu; }
  std::string name() const override { return "late " + cpu_->name(); }
  Result<Buffer> allocate(size_t bytes) override;
  Result<Buffer> allocate_host(size_t bytes) override;
  std::unique_ptr<Stream> new_stream() override;
  void copy(Stream& stream, void* to, const void* from, size_t bytes) override;
  void copy_rows(Stream& stream, void* to, size_t to_pitch, const void* from, size_t from_pitch,
                 size_t row_bytes, size_t rows) override;
  void clear(Stream& stream, void* data, size_t bytes) override;

  // Events stop being done: a kernel that never ends.
  void hang() { hangs_ = true; }

 private:
  friend class LateStream;
  friend class LateEvent;

  void run_until(int64_t count);

  std::unique_ptr<Device> cpu_;
  std::unique_ptr<Stream> inner_;
  std::deque<std::function<void(Stream&)>> waiting_;
  int64_t issued_ = 0;
  int64_t ran_ = 0;
  bool hangs_ = false;
};

}  // namespace ashlar

#endif  // ASHLAR_TESTING_LATE_DEVICE_H_
