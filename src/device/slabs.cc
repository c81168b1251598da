// A slab is aligned to its size, so a buffer finds the count at the slab's beginning from its own
// address.
#include "device/slabs.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "base/align.h"

namespace ashlar {

namespace {

constexpr size_t kSlabBytes = size_t{16} << 20;
constexpr size_t kAlignment = 64;

// At the beginning of each slab: its buffers, and one while it is open.
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
  for (const OpenSlab& slab : open_) leave(slab.data);
}

Slabs::OpenSlab* Slabs::slab_with(size_t bytes) {
  for (OpenSlab& slab : open_) {
    if (slab.used + bytes <= kSlabBytes) return &slab;
  }
  void* memory = std::aligned_alloc(kSlabBytes, kSlabBytes);
  if (memory == nullptr) return nullptr;
  madvise(memory, kSlabBytes, MADV_HUGEPAGE);
  if (open_.size() == kMostOpen) {
    const auto fullest = std::ranges::max_element(open_, {}, &OpenSlab::used);
    leave(fullest->data);
    open_.erase(fullest);
  }
  new (memory) SlabHead{1};
  open_.push_back({static_cast<std::byte*>(memory), kAlignment});
  return &open_.back();
}

Buffer Slabs::allocate(size_t bytes) {
  const auto rounded =
      static_cast<size_t>(round_up(static_cast<int64_t>(bytes), static_cast<int64_t>(kAlignment)));
  const std::lock_guard lock(mutex_);
  OpenSlab* slab = slab_with(rounded);
  if (slab == nullptr) return {};
  reinterpret_cast<SlabHead*>(slab->data)->users.fetch_add(1);
  Buffer buffer(slab->data + slab->used, bytes, free_in_slab);
  slab->used += rounded;
  return buffer;
}

}  // namespace ashlar
