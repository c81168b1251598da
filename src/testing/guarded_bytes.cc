// Guarded bytes with mmap and mprotect.
#include "testing/guarded_bytes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/check.h"

namespace ashlar {

GuardedBytes::GuardedBytes(size_t capacity) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  readable_bytes_ = (capacity + page - 1) / page * page;
  mapped_bytes_ = readable_bytes_ + page;
  void* address =
      ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(address != MAP_FAILED);
  pages_ = static_cast<std::byte*>(address);
  CHECK_EQ(::mprotect(pages_ + readable_bytes_, page, PROT_NONE), 0);
}

GuardedBytes::~GuardedBytes() { ::munmap(pages_, mapped_bytes_); }

std::span<const std::byte> GuardedBytes::assign(std::span<const std::byte> bytes) {
  CHECK_LE(bytes.size(), readable_bytes_);
  std::byte* start = pages_ + readable_bytes_ - bytes.size();
  if (!bytes.empty()) std::memcpy(start, bytes.data(), bytes.size());
  return {start, bytes.size()};
}

}  // namespace ashlar
