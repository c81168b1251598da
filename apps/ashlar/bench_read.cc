// Reads a buffer with the device's threads and times it. Vectors of the compiler are enough here:
// the loop waits for memory, not for arithmetic, and the baseline of the build is AVX2.
#include "bench_read.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/align.h"

namespace ashlar {

namespace {

using Vector [[gnu::vector_size(32)]] = uint64_t;
constexpr int64_t kPiece =
    256 << 10;  // a part of the loop: large beside the cost of handing it out
constexpr double kLeastSeconds = 0.4;
constexpr size_t kLeastPasses = 5;
constexpr size_t kMostPasses = 400;

// Four runs of the piece at once, a cache line of each in turn: a core that follows one run only
// keeps fewer lines on their way.
uint64_t sum_of(const std::byte* begin) {
  constexpr int kRuns = 4;
  constexpr int64_t kRun = kPiece / kRuns;
  constexpr int64_t kLine = 2 * sizeof(Vector);
  Vector sums[kRuns] = {};
  for (int64_t at = 0; at < kRun; at += kLine) {
    for (int run = 0; run < kRuns; ++run) {
      Vector line[2];
      std::memcpy(line, begin + run * kRun + at, kLine);
      sums[run] += line[0] + line[1];
    }
  }
  const Vector sum = sums[0] + sums[1] + sums[2] + sums[3];
  return sum[0] + sum[1] + sum[2] + sum[3];
}

// The number after a name in a file of "Name:   123 kB" lines, in bytes.
int64_t kilobytes_in(const char* path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    int64_t value = 0;
    if (word == name && file >> value) return value * 1024;
  }
  return 0;
}

int64_t system_value(int name, int64_t otherwise) {
  const int64_t value = sysconf(name);
  return value > 0 ? value : otherwise;
}

}  // namespace

Result<ReadSpeed> measure_read(Device& device, int64_t bytes) {
  const int64_t pieces = divide_up(bytes, kPiece);
  ReadSpeed speed;
  speed.bytes = pieces * kPiece;
  ASHLAR_ASSIGN(const Buffer buffer, device.allocate(static_cast<size_t>(speed.bytes)));
  auto* data = static_cast<std::byte*>(buffer.data());
  ThreadPool& pool = *device.thread_pool();
  // Written first: memory that was never written is one page of zeros, however much is read.
  pool.run(pieces, [&](int64_t piece, int) {
    std::memset(data + piece * kPiece, static_cast<int>(piece % 251), kPiece);
  });
  std::atomic<uint64_t> sum{0};
  std::vector<double> seconds;
  double total = 0;
  while (seconds.size() < kLeastPasses || (total < kLeastSeconds && seconds.size() < kMostPasses)) {
    const auto start = std::chrono::steady_clock::now();
    pool.run(pieces, [&](int64_t piece, int) {
      sum.fetch_add(sum_of(data + piece * kPiece), std::memory_order_relaxed);
    });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    seconds.push_back(took.count());
    total += took.count();
  }
  // The sum must be wanted, or nothing would need to be read.
  if (sum.load() == 0 && pieces > 1) {
    return fail(ErrorCode::kInternal, "the buffer of the read measurement holds nothing");
  }
  speed.gb_s = static_cast<double>(speed.bytes) / median(seconds) * 1e-9;
  return speed;
}

int64_t second_level_cache_bytes() { return system_value(_SC_LEVEL2_CACHE_SIZE, 2 << 20); }
int64_t last_level_cache_bytes() { return system_value(_SC_LEVEL3_CACHE_SIZE, 64 << 20); }
int64_t peak_resident_bytes() { return kilobytes_in("/proc/self/status", "VmHWM:"); }
int64_t available_memory_bytes() { return kilobytes_in("/proc/meminfo", "MemAvailable:"); }

}  // namespace ashlar
