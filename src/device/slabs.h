// Slabs: memory of huge pages shared by many buffers.
//
// A model has hundreds of weights of a few hundred kilobytes. Each in pages of its own would be
// read through 4 KiB pages, and one decoded token touches more of those than a processor can
// translate without looking them up in memory. Buffers of 64 KiB to 4 MiB are therefore cut one
// after the other from slabs of 16 MiB that ask for huge pages. The last few slabs stay open, as a
// large buffer leaves a rest that smaller ones fill (2 MB of SmolLM2's 73). A slab is returned to
// the system when its last buffer is freed; room of single buffers is not used again, as weights
// come and go together. Smaller and larger buffers are allocations of their own (device_cpu.cc).
#ifndef ASHLAR_DEVICE_SLABS_H_
#define ASHLAR_DEVICE_SLABS_H_

#include <cstddef>
#include <mutex>
#include <vector>

#include "tensor/buffer.h"

namespace ashlar {

class Slabs {
 public:
  static constexpr size_t kSmallest = size_t{64} << 10;
  static constexpr size_t kLargest = size_t{4} << 20;

  Slabs() = default;
  ~Slabs();
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;

  // Bytes in [kSmallest, kLargest], aligned to 64; an empty buffer when the system has no memory.
  // Buffers may outlive this object. Any thread.
  Buffer allocate(size_t bytes);

 private:
  static constexpr size_t kMostOpen = 4;
  struct OpenSlab {
    std::byte* data;
    size_t used;  // bytes from the beginning
  };
  // The first open slab with room, or a new one; null when the system has no memory.
  OpenSlab* slab_with(size_t bytes);

  std::mutex mutex_;
  std::vector<OpenSlab> open_;
};

}  // namespace ashlar

#endif  // ASHLAR_DEVICE_SLABS_H_
