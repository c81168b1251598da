// The CUDA device: copies, order, and above all how failures come out: as values, once, with the
// name and the shape of what failed.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "device/launch_cuda.h"
#include "testing/cuda_device.h"

namespace ashlar {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int64_t kSpinNanoseconds = 100'000'000;  // long against any call of the host

__device__ void wait_for_predecessor() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

__device__ void spin(int64_t nanoseconds) {
  uint64_t begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < static_cast<uint64_t>(nanoseconds));
}

// The successor is let in at once, so only its wait keeps it from reading too early.
__global__ void slow_add(int32_t* values, int count, int32_t addend, int64_t nanoseconds) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  wait_for_predecessor();
  if (nanoseconds > 0) spin(nanoseconds);
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] += addend;
}

__global__ void fill_shared(int32_t* out, int words) {
  extern __shared__ int32_t shared[];
  wait_for_predecessor();
  for (int i = static_cast<int>(threadIdx.x); i < words; i += static_cast<int>(blockDim.x)) {
    shared[i] = i;
  }
  __syncthreads();
  if (threadIdx.x == 0) *out = shared[words - 1];
}

__global__ void cluster_size(uint32_t* out) {
  wait_for_predecessor();
  uint32_t size;
  asm volatile("mov.u32 %0, %cluster_nctaid.x;" : "=r"(size));
  if (blockIdx.x == 0 && threadIdx.x == 0) *out = size;
}

__global__ void trap() { asm volatile("trap;"); }

class CudaDevice : public testing::Test {
 protected:
  void SetUp() override {
    ASHLAR_NEEDS_CUDA();
    stream_ = cuda_device().new_stream();
  }

  Buffer device_buffer(size_t bytes) { return std::move(*cuda_device().allocate(bytes)); }
  Buffer pinned(size_t bytes) { return std::move(*cuda_device().allocate_host(bytes)); }

  template <class T>
  T read(const Buffer& buffer) {
    T value = {};
    cuda_device().copy(*stream_, &value, buffer.data(), sizeof(T));
    EXPECT_TRUE(stream_->synchronize());
    return value;
  }

  void add(const Buffer& buffer, int count, int32_t addend, int64_t nanoseconds = 0) {
    launch(*stream_, "slow_add", slow_add, {dim3(std::max(count + 255, 256) / 256), dim3(256)},
           static_cast<int32_t*>(buffer.data()), count, addend, nanoseconds);
  }

  // 400 KB of shared memory is more than any CTA gets.
  void fail_to_launch() {
    launch(*stream_, "too_greedy", fill_shared, {dim3(3), dim3(64), 400 << 10}, nullptr, 1);
  }

  std::unique_ptr<Stream> stream_;
};

void expect_says(const Status& status, std::initializer_list<const char*> texts) {
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kDevice);
  for (const char* text : texts) {
    EXPECT_NE(status.error().message.find(text), std::string::npos) << status.error().message;
  }
}

TEST_F(CudaDevice, HasANameForPeopleAndMemory) {
  EXPECT_EQ(cuda_device().backend(), Backend::kCuda);
  const std::string name = cuda_device().name();
  EXPECT_EQ(name.find("cuda: NVIDIA H"), 0u) << name;
  EXPECT_NE(name.find(" GiB"), std::string::npos) << name;
  const DeviceMemory before = cuda_device().memory();
  EXPECT_GT(before.free_bytes, 0u);
  EXPECT_GE(before.total_bytes, before.free_bytes);
  const Buffer buffer = device_buffer(size_t{1} << 30);
  EXPECT_LE(cuda_device().memory().free_bytes + (size_t{1} << 30), before.free_bytes);
}

TEST_F(CudaDevice, CopiesThereAndBack) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4097}, (size_t{64} << 20) + 3}) {
    const Buffer one = device_buffer(bytes);
    const Buffer two = device_buffer(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(one.data()) % 64, 0u);
    const Buffer pinned_from = pinned(bytes);
    const Buffer pinned_to = pinned(bytes);
    std::vector<std::byte> from(bytes);
    std::vector<std::byte> to(bytes);
    for (size_t i = 0; i < bytes; ++i) from[i] = static_cast<std::byte>(i * 131 >> 3);
    std::memcpy(pinned_from.data(), from.data(), bytes);
    std::memset(pinned_to.data(), 0, bytes);
    const auto round_trip = [&](const void* begin, void* end) {
      cuda_device().copy(*stream_, one.data(), begin, bytes);
      cuda_device().copy(*stream_, two.data(), one.data(), bytes);
      cuda_device().copy(*stream_, end, two.data(), bytes);
      ASSERT_TRUE(stream_->synchronize());
    };
    round_trip(from.data(), to.data());
    EXPECT_EQ(from, to) << bytes;
    round_trip(pinned_from.data(), pinned_to.data());
    EXPECT_EQ(std::memcmp(pinned_to.data(), from.data(), bytes), 0) << bytes;
  }
}

// Neither launch nor copies of pinned memory wait for the device; the event does.
TEST_F(CudaDevice, EventsFollowTheOrderOfTheStream) {
  const Buffer values = device_buffer(4);
  const Buffer host = pinned(4);
  auto* number = static_cast<volatile int32_t*>(host.data());
  *number = 7;
  add(values, 0, 0);  // loads the kernel, which may take as long as the spin
  ASSERT_TRUE(stream_->synchronize());
  const auto begin = steady_clock::now();
  cuda_device().copy(*stream_, values.data(), host.data(), 4);
  const std::unique_ptr<Event> early = stream_->record();
  add(values, 1, 10, kSpinNanoseconds);
  add(values, 1, 100);
  cuda_device().copy(*stream_, host.data(), values.data(), 4);
  const std::unique_ptr<Event> late = stream_->record();
  EXPECT_FALSE(late->done());
  EXPECT_LT(steady_clock::now() - begin, milliseconds(80));
  EXPECT_TRUE(early->wait());
  EXPECT_EQ(*number, 7);
  EXPECT_TRUE(late->wait());
  EXPECT_EQ(*number, 117);
  EXPECT_TRUE(late->done());
  EXPECT_GE(steady_clock::now() - begin, milliseconds(100));
}

TEST_F(CudaDevice, AKernelThatStartsEarlyWaitsForItsPredecessor) {
  constexpr int kCount = 100'000;
  const Buffer values = device_buffer(kCount * sizeof(int32_t));
  std::vector<int32_t> host(kCount, 1);
  cuda_device().copy(*stream_, values.data(), host.data(), values.bytes());
  for (int i = 0; i < 200; ++i) add(values, kCount, i, i % 50 == 0 ? 1'000'000 : 0);
  cuda_device().copy(*stream_, host.data(), values.data(), values.bytes());
  ASSERT_TRUE(stream_->synchronize());
  for (const int32_t value : host) ASSERT_EQ(value, 1 + 199 * 200 / 2);
}

TEST_F(CudaDevice, EventsAreUsedAgainAndMayOutliveTheirStream) {
  std::vector<std::unique_ptr<Event>> events;
  for (int i = 0; i < 1000; ++i) {
    events.push_back(stream_->record());
    if (i % 3 == 0) events.clear();
  }
  stream_.reset();
  for (const auto& event : events) EXPECT_TRUE(event->wait());
}

TEST_F(CudaDevice, AnotherThreadUsesIt) {
  const Buffer values = device_buffer(4);
  std::thread([&] {
    const int32_t zero = 0;
    cuda_device().copy(*stream_, values.data(), &zero, 4);
    add(values, 1, 5);
    EXPECT_TRUE(stream_->synchronize());
  }).join();
  EXPECT_EQ(read<int32_t>(values), 5);
}

// Two streams that ask for different amounts do not undo each other's permission.
TEST_F(CudaDevice, KernelsGetTheSharedMemoryThatTheyAskFor) {
  const std::unique_ptr<Stream> other = cuda_device().new_stream();
  const Buffer out = device_buffer(4);
  const auto run = [&](Stream& stream, int kilobytes) {
    const int words = kilobytes * 256;
    launch(stream, "fill_shared", fill_shared,
           {dim3(1), dim3(256), static_cast<size_t>(kilobytes) << 10},
           static_cast<int32_t*>(out.data()), words);
    ASSERT_TRUE(stream.synchronize());
    EXPECT_EQ(read<int32_t>(out), words - 1);
  };
  EXPECT_EQ(cuda_traits(*stream_).shared_bytes_per_block, size_t{227} << 10);
  run(*stream_, 200);
  run(*other, 100);
  run(*stream_, 227);
  run(*other, 16);
  run(*other, 227);
}

TEST_F(CudaDevice, ClustersHaveTheirSize) {
  const Buffer out = device_buffer(4);
  for (const int size : {1, 2, 4, 8}) {
    launch(*stream_, "cluster_size", cluster_size, {dim3(16), dim3(32), 0, size},
           static_cast<uint32_t*>(out.data()));
    EXPECT_EQ(read<uint32_t>(out), static_cast<uint32_t>(size));
  }
}

TEST_F(CudaDevice, AFailedLaunchComesOutOfTheNextWaitOnce) {
  fail_to_launch();
  expect_says(stream_->synchronize(), {"too_greedy", "grid 3x1x1", "block 64x1x1",
                                       "409600 bytes of shared memory", "cudaLaunchKernelExC"});
  EXPECT_TRUE(stream_->synchronize());
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);

  fail_to_launch();
  const std::unique_ptr<Event> event = stream_->record();
  EXPECT_TRUE(event->done());
  expect_says(event->wait(), {"too_greedy", "grid 3x1x1"});
  EXPECT_TRUE(event->wait());
  EXPECT_TRUE(stream_->synchronize());
}

// An event from before the failure does not let it go by either: what follows in the stream is not
// to be trusted.
TEST_F(CudaDevice, TheFirstFailureIsKeptAndWhatFollowsIsDropped) {
  const Buffer values = device_buffer(4);
  const int32_t one = 1;
  cuda_device().copy(*stream_, values.data(), &one, 4);
  const std::unique_ptr<Event> before = stream_->record();
  fail_to_launch();
  add(values, 1, 10);
  keep_failure(*stream_, cudaErrorNotSupported, "cudaSecond", "other");
  expect_says(before->wait(), {"too_greedy"});
  EXPECT_EQ(read<int32_t>(values), 1);
  keep_failure(*stream_, cudaErrorNotSupported, "cudaThird", "third");
  expect_says(stream_->synchronize(), {"cudaThird", "third", "cudaErrorNotSupported"});
}

// Somebody else's wait took the failure meanwhile; the work before this event was dropped all the
// same.
TEST_F(CudaDevice, AnEventOfAFailedStreamReportsTheFailureThatSomebodyTook) {
  fail_to_launch();
  const std::unique_ptr<Event> event = stream_->record();
  expect_says(stream_->synchronize(), {"too_greedy"});
  expect_says(event->wait(), {"too_greedy"});
  EXPECT_TRUE(event->wait());
}

TEST_F(CudaDevice, ARecordingRunsInStreamOrderOverTheMemoryOfNow) {
  const Buffer values = device_buffer(4);
  add(values, 0, 0);  // a kernel is recorded after its first run
  stream_->begin_recording();
  add(values, 1, 10, 1'000'000);
  add(values, 1, 100);
  const auto recording = stream_->end_recording();
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_EQ((*recording)->ops(), 2);
  int32_t start = 1;
  cuda_device().copy(*stream_, values.data(), &start, 4);
  EXPECT_EQ(read<int32_t>(values), 1) << "nothing runs while it is recorded";
  for (int i = 0; i < 3; ++i) stream_->replay(**recording);
  add(values, 1, 1000);
  EXPECT_EQ(read<int32_t>(values), 1331);
  start = 5;
  cuda_device().copy(*stream_, values.data(), &start, 4);
  stream_->replay(**recording);
  EXPECT_EQ(read<int32_t>(values), 115);
}

TEST_F(CudaDevice, AKernelThatNeverRanIsNotRecorded) {
  const std::unique_ptr<Stream> fresh = cuda_device().new_stream();
  const Buffer out = device_buffer(4);
  fresh->begin_recording();
  launch(*fresh, "cluster_size", cluster_size, {dim3(2), dim3(32), 0, 2},
         static_cast<uint32_t*>(out.data()));
  const auto recording = fresh->end_recording();
  ASSERT_FALSE(recording);
  EXPECT_NE(recording.error().message.find("cluster_size"), std::string::npos);
  EXPECT_NE(recording.error().message.find("has not run"), std::string::npos);
  EXPECT_TRUE(fresh->synchronize()) << "the failure was reported";
  launch(*fresh, "cluster_size", cluster_size, {dim3(2), dim3(32), 0, 2},
         static_cast<uint32_t*>(out.data()));
  EXPECT_TRUE(fresh->synchronize()) << "the stream works on";
}

TEST_F(CudaDevice, WhatWouldWaitIsRefusedInARecordingByName) {
  stream_->begin_recording();
  expect_says(stream_->synchronize(), {"cudaStreamSynchronize"});
  EXPECT_FALSE(stream_->end_recording());
  EXPECT_TRUE(stream_->synchronize());
}

TEST_F(CudaDevice, TimedEventsTellHowLongWorkTook) {
  const Buffer values = device_buffer(4);
  add(values, 0, 0);
  const std::unique_ptr<Event> begin = stream_->record_timed();
  add(values, 1, 1, kSpinNanoseconds);
  const std::unique_ptr<Event> end = stream_->record_timed();
  ASSERT_TRUE(end->wait());
  EXPECT_GT(end->seconds_since(*begin), 0.09);
  EXPECT_LT(end->seconds_since(*begin), 0.5);
}

TEST_F(CudaDevice, RowsAreCopiedAndMemoryIsCleared) {
  const Buffer there = device_buffer(6 * 16);
  std::vector<int32_t> host(24, 7), rows = {1, 2, 3, 4, 5, 6};
  cuda_device().copy(*stream_, there.data(), host.data(), 96);
  cuda_device().copy_rows(*stream_, there.data(), 16, rows.data(), 8, 8, 3);
  cuda_device().clear(*stream_, static_cast<std::byte*>(there.data()) + 80, 16);
  cuda_device().copy(*stream_, host.data(), there.data(), 96);
  ASSERT_TRUE(stream_->synchronize());
  EXPECT_EQ(host, (std::vector<int32_t>{1, 2, 7, 7, 3, 4, 7, 7, 5, 6, 7, 7,
                                        7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0}));
}

TEST_F(CudaDevice, AnEmptyGridIsNotLaunched) {
  launch(*stream_, "nothing", fill_shared, {dim3(0), dim3(64)}, nullptr, 1);
  EXPECT_TRUE(stream_->synchronize());
}

TEST_F(CudaDevice, MemoryThatIsNotThereIsRefusedWithNumbers) {
  const auto buffer = cuda_device().allocate(size_t{1} << 50);
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().code, ErrorCode::kResourceExhausted);
  for (const char* text : {"1125899906842624 bytes", "GiB are free", "cuda:0", "nvidia-smi"}) {
    EXPECT_NE(buffer.error().message.find(text), std::string::npos) << buffer.error().message;
  }
  const auto host = cuda_device().allocate_host(size_t{1} << 50);
  ASSERT_FALSE(host);
  EXPECT_NE(host.error().message.find("1125899906842624 bytes"), std::string::npos);
  EXPECT_TRUE(cuda_device().allocate(1));
  EXPECT_TRUE(stream_->synchronize());
}

TEST_F(CudaDevice, DriverFunctionsAreFoundByName) {
  EXPECT_NE(find_driver_function("cuTensorMapEncodeTiled"), nullptr);
  EXPECT_EQ(find_driver_function("cuNoSuchFunction"), nullptr);
}

// In a process of its own: a trap ends the device's context.
TEST_F(CudaDevice, AFaultInAKernelIsReportedByTheNextWait) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto fault = [&] {
    launch(*stream_, "trap", trap, {dim3(2), dim3(32)});
    const Status first = stream_->synchronize();
    const auto buffer = cuda_device().allocate(4);
    if (first || buffer || buffer.error().code != ErrorCode::kDevice) std::exit(1);
    std::fprintf(stderr, "%s\n", first.error().message.c_str());
    std::exit(0);
  };
  EXPECT_EXIT(fault(), testing::ExitedWithCode(0),
              "cudaStreamSynchronize .*started last was trap, grid 2x1x1, block 32x1x1.*cudaError");
}

TEST_F(CudaDevice, RefusesADeviceThatIsNotThere) {
  const auto device = new_cuda_device(1000);
  ASSERT_FALSE(device);
  EXPECT_NE(device.error().message.find("no CUDA device 1000"), std::string::npos);
}

}  // namespace
}  // namespace ashlar
