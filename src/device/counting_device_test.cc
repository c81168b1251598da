// What the counting device counts, and that nothing happens on it.
#include "device/counting_device.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

// A CPU device that says it has memory of its own.
class WithMemory : public Device {
 public:
  Backend backend() const override { return Backend::kCuda; }
  std::string name() const override { return "a device"; }
  Result<Buffer> allocate(size_t) override { return fail(ErrorCode::kInternal, "not to be asked"); }
  DeviceMemory memory() const override { return {size_t{10} << 30, size_t{7} << 30}; }
  std::unique_ptr<Stream> new_stream() override { return nullptr; }
  void copy(Stream&, void*, const void*, size_t) override { FAIL(); }
  void copy_rows(Stream&, void*, size_t, const void*, size_t, size_t, size_t) override { FAIL(); }
  void clear(Stream&, void*, size_t) override { FAIL(); }
};

constexpr size_t kMiB = size_t{1} << 20;

TEST(CountingDevice, CountsAsMemoryIsHandedOut) {
  WithMemory real;
  CountingDevice device(real);
  EXPECT_EQ(device.backend(), Backend::kCuda);
  EXPECT_EQ(device.name(), "a device");
  EXPECT_EQ(device.counted_bytes(), 0);
  std::vector<Buffer> buffers;
  const auto take = [&](size_t bytes) {
    auto buffer = device.allocate(bytes);
    ASSERT_TRUE(buffer.has_value());
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
    buffers.push_back(std::move(*buffer));
  };
  take(1);
  take(600);
  EXPECT_EQ(device.counted_bytes(), static_cast<int64_t>(2 * kMiB)) << "small ones share a unit";
  take(kMiB);
  EXPECT_EQ(device.counted_bytes(), static_cast<int64_t>(4 * kMiB));
  take(2 * kMiB + 1);
  EXPECT_EQ(device.counted_bytes(), static_cast<int64_t>(8 * kMiB));
  take(size_t{40} << 30);
  EXPECT_EQ(device.memory().free_bytes, 0u) << "more than there is";
  EXPECT_EQ(device.memory().total_bytes, size_t{10} << 30);
  EXPECT_EQ(buffers.size(), 5u);
  EXPECT_TRUE(device.allocate_host(5 * kMiB).has_value());
}

TEST(CountingDevice, NothingHappensOnIt) {
  WithMemory real;
  CountingDevice device(real);
  const std::unique_ptr<Stream> stream = device.new_stream();
  EXPECT_EQ(&stream->device(), &device);
  Buffer buffer = device.allocate(64).value();
  device.copy(*stream, buffer.data(), nullptr, 64);
  device.clear(*stream, buffer.data(), 64);
  EXPECT_TRUE(stream->defers());
  stream->defer([](Stream&) { FAIL(); });
  EXPECT_TRUE(stream->record()->wait().has_value());
  EXPECT_TRUE(stream->synchronize().has_value());
}

}  // namespace
}  // namespace ashlar
