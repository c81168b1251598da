// Fills a buffer with a pattern, reads it in every way that the device has, and compares the sums
// with what the pattern gives.
#include "bench_read.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/align.h"
#include "bench_bed.h"
#include "bench_time.h"

namespace ashlar {

namespace {

constexpr int64_t kPattern = 1 << 20;
constexpr double kSeconds = 0.4;  // of passes on the CPU
constexpr int64_t kLeastPasses = 5;
constexpr int64_t kMostPasses = 400;
constexpr int64_t kDevicePasses = 9;  // of each way, on a GPU

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

uint32_t word_sum(std::span<const uint32_t> words) {
  uint32_t sum = 0;
  for (const uint32_t word : words) sum += word;
  return sum;
}

}  // namespace

Result<std::unique_ptr<ReadProbe>> ReadProbe::create(Device& device, int64_t bytes) {
  std::unique_ptr<ReadProbe> probe(new ReadProbe(device));
  probe->stream_ = device.new_stream();
  Stream& stream = *probe->stream_;
  const int64_t patterns = divide_up(bytes, kPattern);
  probe->bytes_ = patterns * kPattern;
  std::mt19937 random(1);
  std::vector<uint32_t> pattern(kPattern / 4);
  for (uint32_t& word : pattern) word = static_cast<uint32_t>(random());
  probe->sum_ = word_sum(pattern) * static_cast<uint32_t>(patterns);
  ASHLAR_ASSIGN(probe->data_, device.allocate(static_cast<size_t>(probe->bytes_)));
  ASHLAR_ASSIGN(probe->sums_, device.allocate(kReadSums * 4));
  ASHLAR_ASSIGN(probe->clock_, device.allocate(8));
  // Written first: memory that was never written is one page of zeros, however much is read.
  fill_repeating(stream, probe->data_.data(), static_cast<size_t>(probe->bytes_),
                 std::as_bytes(std::span(pattern)));
  device.clear(stream, probe->sums_.data(), kReadSums * 4);
  device.clear(stream, probe->clock_.data(), 8);
  ASHLAR_TRY(stream.synchronize());
  return probe;
}

void ReadProbe::pass(Stream& stream, int way) {
  read_bytes(stream, {.data = data_.view(DType::kU8, {bytes_}),
                      .sums = sums_.view(DType::kI32, {kReadSums}),
                      .clock = clock_.view(DType::kF32, {2}),
                      .way = way});
  ++passes_;
}

Result<double> ReadProbe::median_seconds(int way) {
  const bool cpu = device_.backend() == Backend::kCpu;
  const auto run = [&] { pass(*stream_, way); };
  ASHLAR_ASSIGN(const std::vector<double> first, time_runs(*stream_, 1, run));
  const int64_t count =
      cpu ? runs_for(kSeconds, first.front(), kLeastPasses, kMostPasses) : kDevicePasses;
  ASHLAR_ASSIGN(std::vector<double> seconds, time_runs(*stream_, count, run));
  return median(std::move(seconds));
}

Status ReadProbe::check_sums() const {
  std::vector<uint32_t> sums(kReadSums);
  device_.copy(*stream_, sums.data(), sums_.data(), sums.size() * 4);
  ASHLAR_TRY(stream_->synchronize());
  if (word_sum(sums) == sum_ * static_cast<uint32_t>(passes_)) return {};
  return fail(ErrorCode::kInternal,
              "the read measurement did not read what it should: {} passes gave the sum {:08x} "
              "instead of {:08x}",
              passes_, word_sum(sums), sum_ * static_cast<uint32_t>(passes_));
}

Result<ReadSpeed> ReadProbe::measure() {
  ReadSpeed speed;
  speed.bytes = bytes_;
  const int ways = device_.backend() == Backend::kCpu ? 1 : kReadWays;
  for (int way = 0; way < ways; ++way) {
    ASHLAR_ASSIGN(const double seconds, median_seconds(way));
    speed.gb_s = std::max(speed.gb_s, static_cast<double>(bytes_) / seconds * 1e-9);
  }
  ASHLAR_TRY(check_sums());
  float clock[2] = {};
  device_.copy(*stream_, clock, clock_.data(), sizeof(clock));
  ASHLAR_TRY(stream_->synchronize());
  if (clock[1] > 0) speed.clock_mhz = static_cast<double>(clock[0]) / clock[1] * 1e3;
  return speed;
}

int64_t second_level_cache_bytes() { return system_value(_SC_LEVEL2_CACHE_SIZE, 2 << 20); }
int64_t last_level_cache_bytes() { return system_value(_SC_LEVEL3_CACHE_SIZE, 64 << 20); }
int64_t peak_resident_bytes() { return kilobytes_in("/proc/self/status", "VmHWM:"); }
int64_t available_memory_bytes() { return kilobytes_in("/proc/meminfo", "MemAvailable:"); }

}  // namespace ashlar
