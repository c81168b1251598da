// Memory and threads of generated tensors.
//
// The mapping is shared, though nobody shares it: the system then keeps the pages when they are
// told to be unneeded (MADV_DONTNEED, as give_back_pages does to files), where private memory would
// turn to zeros. MADV_REMOVE drops them.
#include "checkpoint/synthetic_tensor.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"

namespace ashlar {
namespace {

constexpr int64_t kRun = 16;
constexpr int64_t kElementsOfAThread = 1 << 18;  // fewer are not worth starting one

// Elements [begin, end) into out[0 ...].
void fill(const SyntheticValues& values, int64_t begin, int64_t end, uint16_t* out) {
  // Runs of a fixed length become vector instructions.
  const int64_t count = end - begin;
  int64_t i = 0;
  for (; i + kRun <= count; i += kRun) {
    for (int64_t j = 0; j < kRun; ++j) {
      out[i + j] = synthetic_bf16(values, static_cast<uint64_t>(begin + i + j));
    }
  }
  for (; i < count; ++i) out[i] = synthetic_bf16(values, static_cast<uint64_t>(begin + i));
}

int usable_threads() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return ::sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

void fill_by_threads(const SyntheticValues& values, int64_t elements, uint16_t* out) {
  const int64_t parts = std::clamp<int64_t>(elements / kElementsOfAThread, 1, usable_threads());
  const int64_t size = (elements + parts - 1) / parts;
  std::vector<std::thread> threads;
  int64_t begin = 0;
  for (; begin + size < elements; begin += size) {
    try {
      threads.emplace_back(fill, std::cref(values), begin, begin + size, out + begin);
    } catch (const std::system_error&) {
      break;  // no more threads: the rest is done here
    }
  }
  fill(values, begin, elements, out + begin);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

Result<std::shared_ptr<SyntheticTensor>> SyntheticTensor::make(const SyntheticValues& values,
                                                               int64_t elements, bool zeros) {
  CHECK(elements > 0);
  const size_t bytes = static_cast<size_t>(elements) * sizeof(uint16_t);
  const int sharing = zeros ? MAP_PRIVATE : MAP_SHARED;
  void* memory = ::mmap(nullptr, bytes, zeros ? PROT_READ : PROT_NONE,
                        sharing | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(ErrorCode::kResourceExhausted, "cannot reserve {} bytes for generated weights: {}",
                bytes, std::generic_category().message(errno));
  }
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  return std::shared_ptr<SyntheticTensor>(new SyntheticTensor(values, elements, zeros, memory));
}

SyntheticTensor::~SyntheticTensor() { ::munmap(memory_, bytes()); }

const std::byte* SyntheticTensor::data() {
  const std::lock_guard lock(mutex_);
  if (!zeros_ && !filled_) {
    CHECK(::mprotect(memory_, bytes(), PROT_READ | PROT_WRITE) == 0);
    fill_by_threads(values_, elements_, static_cast<uint16_t*>(memory_));
    CHECK(::mprotect(memory_, bytes(), PROT_READ) == 0);
    filled_ = true;
    ++fills_;
  }
  return static_cast<const std::byte*>(memory_);
}

void SyntheticTensor::read(size_t offset, std::span<std::byte> out) const {
  CHECK(offset % sizeof(uint16_t) == 0 && out.size() % sizeof(uint16_t) == 0);
  CHECK(offset <= bytes() && out.size() <= bytes() - offset);
  CHECK(reinterpret_cast<uintptr_t>(out.data()) % sizeof(uint16_t) == 0);
  if (zeros_) {
    std::memset(out.data(), 0, out.size());
    return;
  }
  const auto begin = static_cast<int64_t>(offset / sizeof(uint16_t));
  const auto count = static_cast<int64_t>(out.size() / sizeof(uint16_t));
  fill(values_, begin, begin + count, reinterpret_cast<uint16_t*>(out.data()));
}

void SyntheticTensor::give_back() {
  const std::lock_guard lock(mutex_);
  if (!filled_) return;
  // Removing needs the right to write.
  CHECK(::mprotect(memory_, bytes(), PROT_READ | PROT_WRITE) == 0);
  CHECK(::madvise(memory_, bytes(), MADV_REMOVE) == 0);
  CHECK(::mprotect(memory_, bytes(), PROT_NONE) == 0);
  filled_ = false;
}

int64_t SyntheticTensor::fills() {
  const std::lock_guard lock(mutex_);
  return fills_;
}

}  // namespace ashlar
