// Device, Stream and Event: where memory lives and in which order work runs. One interface; files
// with the suffix _cpu or _cuda implement it. What runs is not known here: that is kernels/.
//
// The CPU device runs work at once on the calling thread and its pool, so its streams are always
// idle when a call returns; callers still record and wait, because the same code drives a GPU. On a
// CUDA device a failure of any call is kept in its stream and reported by whoever waits next.
#ifndef ASHLAR_DEVICE_DEVICE_H_
#define ASHLAR_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "device/thread_pool.h"
#include "tensor/buffer.h"

namespace ashlar {

enum class Backend : uint8_t { kCpu, kCuda };
constexpr int kBackendCount = 2;
std::string_view backend_name(Backend backend);

// What operations hand each other, but for the residual stream and the logits, which are f32.
constexpr DType activation_type(Backend backend) {
  return backend == Backend::kCpu ? DType::kF32 : DType::kBF16;
}

class Device;
class Stream;

// What an operation tells whoever watches a stream; bytes and flops are the least it must move and
// compute.
struct OpEvent {
  std::string_view name;
  int64_t bytes = 0;
  int64_t flops = 0;
};

// Watches the operations of one stream (trace/). Called on the thread that issues work.
class StreamObserver {
 public:
  virtual ~StreamObserver() = default;
  virtual void op_begin(Stream& stream, const OpEvent& event) = 0;
  virtual void op_end(Stream& stream, const OpEvent& event) = 0;
};

// A point in a stream's order.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool done() = 0;    // does not wait
  virtual Status wait() = 0;  // waits on the host; reports a device failure
  // Of two events of record_timed() that are done, on one device.
  virtual double seconds_since(Event& earlier) = 0;
};

// Operations that were recorded and can run again any number of times, over the same memory. Whose
// stream it came from outlives it.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual int64_t ops() const = 0;  // kernels, or calls of operations
};

// Work runs in the order it was issued. Used by one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device& device() = 0;
  virtual Status synchronize() = 0;
  virtual std::unique_ptr<Event> record() = 0;
  virtual std::unique_ptr<Event> record_timed() { return record(); }

  // Between the two, operations are kept and not run; copies, events and waits must not be issued.
  // Fails with the name of an operation that cannot be recorded: on CUDA, a kernel that this stream
  // has not run before, since its first run loads it. After a failure nothing is being recorded.
  virtual void begin_recording() = 0;
  virtual Result<std::unique_ptr<Recording>> end_recording() = 0;
  // Issues what was recorded, in stream order. Observers are not told of single operations.
  virtual void replay(Recording& recording) = 0;

  // Where work runs at once, an operation that is being recorded hands itself over instead.
  bool defers() const { return defers_; }
  virtual void defer(std::function<void(Stream&)>) {}

  StreamObserver* observer() const { return observer_; }
  void set_observer(StreamObserver* observer) { observer_ = observer; }

 protected:
  bool defers_ = false;

 private:
  StreamObserver* observer_ = nullptr;
};

// Of the device alone; 0 where its memory is the machine's.
struct DeviceMemory {
  size_t total_bytes = 0;
  size_t free_bytes = 0;  // now
};

class Device {
 public:
  virtual ~Device() = default;
  virtual Backend backend() const = 0;
  virtual std::string name() const = 0;  // for people: "cpu: 2 threads, avx3"
  // At least 64-byte aligned, contents undefined. Fails with kResourceExhausted.
  virtual Result<Buffer> allocate(size_t bytes) = 0;
  // Host memory that this device copies from and to without waiting (pinned, on CUDA). Fails as
  // allocate() does.
  virtual Result<Buffer> allocate_host(size_t bytes) { return allocate(bytes); }
  virtual DeviceMemory memory() const { return {}; }
  virtual std::unique_ptr<Stream> new_stream() = 0;
  // Copies bytes between host memory and memory of this device, or within it, in stream order. No
  // overlap. Host memory of allocate_host() is read or written later, when the stream gets there;
  // any other is done with when the call returns.
  virtual void copy(Stream& stream, void* to, const void* from, size_t bytes) = 0;
  // The same for `rows` rows of row_bytes bytes that lie `pitch` bytes apart.
  virtual void copy_rows(Stream& stream, void* to, size_t to_pitch, const void* from,
                         size_t from_pitch, size_t row_bytes, size_t rows) = 0;
  // Sets bytes of this device's memory to zero, in stream order.
  virtual void clear(Stream& stream, void* data, size_t bytes) = 0;
  // The worker threads of a CPU device; nullptr elsewhere.
  virtual ThreadPool* thread_pool() { return nullptr; }
};

// threads = 0 takes one thread a core this process may use.
std::unique_ptr<Device> new_cpu_device(int threads);

// Refused by name, with what to do, where this build has no CUDA backend, the machine no driver of
// its version, or the device is not one that the kernels are compiled for.
Result<std::unique_ptr<Device>> new_cuda_device(int ordinal);
bool has_cuda_backend();  // this build; says nothing about the machine

}  // namespace ashlar

#endif  // ASHLAR_DEVICE_DEVICE_H_
