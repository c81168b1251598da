// A slab is aligned to its size, so a buffer finds the count at the slab's beginning from its own
// address.
#include "device/slabs.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "base/align.h"

namespace ashlar {

namespace {

constexpr size_t kSlabBytes = size_t{16} << 20;
constexpr size_t kAlignment = 64;

// At the beginning of each slab: its buffers, and one while it is being cut.
struct SlabHead {
  std::atomic<int64_t> users;
};
static_assert(sizeof(SlabHead) <= kAlignment);

void leave(std::byte* slab) {
  if (reinterpret_cast<SlabHead*>(slab)->users.fetch_sub(1) == 1) std::free(slab);
}

void free_in_slab(void* data, size_t) {
  leave(reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(data) / kSlabBytes * kSlabBytes));
}

}  // namespace

Slabs::~Slabs() {
  if (slab_ != nullptr) leave(slab_);
}

Buffer Slabs::allocate(size_t bytes) {
  const auto rounded =
      static_cast<size_t>(round_up(static_cast<int64_t>(bytes), static_cast<int64_t>(kAlignment)));
  const std::lock_guard lock(mutex_);
  if (slab_ == nullptr || used_ + rounded > kSlabBytes) {
    void* memory = std::aligned_alloc(kSlabBytes, kSlabBytes);
    if (memory == nullptr) return {};
    madvise(memory, kSlabBytes, MADV_HUGEPAGE);
    if (slab_ != nullptr) leave(slab_);
    slab_ = static_cast<std::byte*>(memory);
    new (slab_) SlabHead{1};
    used_ = kAlignment;
  }
  reinterpret_cast<SlabHead*>(slab_)->users.fetch_add(1);
  Buffer buffer(slab_ + used_, bytes, free_in_slab);
  used_ += rounded;
  return buffer;
}

}  // namespace ashlar
