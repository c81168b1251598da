// The CPU cell of read_bytes: the device's threads take pieces in turn. Vectors of the compiler are
// enough here: the loop waits for memory, not for arithmetic, and the baseline of the build is
// AVX2.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/align.h"
#include "kernels/read_bytes/read_bytes.h"

namespace ashlar {

void read_bytes_cpu(Stream& stream, const ReadBytesArgs& args);

namespace {

using Vector [[gnu::vector_size(32)]] = uint32_t;
constexpr int64_t kLine = 2 * sizeof(Vector);
// A part of the loop: large beside the cost of handing it out.
constexpr int64_t kPiece = 256 << 10;

uint32_t total_of(Vector sum) {
  uint32_t total = 0;
  for (size_t lane = 0; lane < sizeof(Vector) / 4; ++lane) total += sum[lane];
  return total;
}

// Four runs of the piece at once, a cache line of each in turn: a core that follows one run only
// keeps fewer lines on their way.
uint32_t sum_of_piece(const uint8_t* begin) {
  constexpr int kRuns = 4;
  constexpr int64_t kRun = kPiece / kRuns;
  Vector sums[kRuns] = {};
  for (int64_t at = 0; at < kRun; at += kLine) {
    for (int run = 0; run < kRuns; ++run) {
      Vector line[2];
      std::memcpy(line, begin + run * kRun + at, kLine);
      sums[run] += line[0] + line[1];
    }
  }
  return total_of(sums[0] + sums[1] + sums[2] + sums[3]);
}

uint32_t sum_of(const uint8_t* begin, int64_t bytes) {
  if (bytes == kPiece) return sum_of_piece(begin);
  Vector sum = {};
  for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(sizeof(Vector))) {
    Vector half;
    std::memcpy(&half, begin + at, sizeof(half));
    sum += half;
  }
  return total_of(sum);
}

}  // namespace

void read_bytes_cpu(Stream& stream, const ReadBytesArgs& args) {
  const uint8_t* data = args.data.as<uint8_t>();
  const int64_t bytes = args.data.dim(0);
  std::atomic<uint32_t> sum{static_cast<uint32_t>(args.sums.as<int32_t>()[0])};
  stream.device().thread_pool()->run(divide_up(bytes, kPiece), [&](int64_t piece, int) {
    const int64_t begin = piece * kPiece;
    sum.fetch_add(sum_of(data + begin, std::min(kPiece, bytes - begin)), std::memory_order_relaxed);
  });
  args.sums.as<int32_t>()[0] = static_cast<int32_t>(sum.load());
}

}  // namespace ashlar
