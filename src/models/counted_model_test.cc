// A model that is built for its sizes alone: it allocates what the loaded one keeps, reads nothing,
// and says the same of itself.
#include <gtest/gtest.h>

#include <map>

#include "device/counting_device.h"
#include "models/model.h"
#include "testing/cuda_stand_in.h"

namespace ashlar {
namespace {

// Remembers the sizes that were asked for, and has memory of its own to take them from.
class LoggingStandIn : public CudaStandIn {
 public:
  Result<Buffer> allocate(size_t bytes) override {
    ++sizes_[bytes];
    return CudaStandIn::allocate(bytes);
  }
  DeviceMemory memory() const override { return {size_t{1} << 40, (size_t{1} << 40) - 5}; }
  const std::map<size_t, int>& sizes() const { return sizes_; }

 private:
  std::map<size_t, int> sizes_;
};

class LoggingCount : public CountingDevice {
 public:
  using CountingDevice::CountingDevice;
  Result<Buffer> allocate(size_t bytes) override {
    ++sizes_[bytes];
    return CountingDevice::allocate(bytes);
  }
  const std::map<size_t, int>& sizes() const { return sizes_; }

 private:
  std::map<size_t, int> sizes_;
};

TEST(CountedModel, TakesWhatTheLoadedOneKeeps) {
  const char* name = "synthetic:qwen3-0.6b?layers=1&vocab=1000";
  LoggingStandIn device;
  LoggingCount counter(device);
  const auto for_sizes = Checkpoint::open(name, {}, TensorUse::kShapes);
  ASSERT_TRUE(for_sizes.has_value()) << for_sizes.error().message;
  ModelOptions options;
  options.load.values = false;
  options.load.observer = [](const LoadProgress&) {
    ADD_FAILURE() << "nothing is loaded";
    return false;
  };
  const auto counted = load_model(*for_sizes, counter, options);
  ASSERT_TRUE(counted.has_value()) << counted.error().message;
  EXPECT_EQ((*counted)->info().device_bytes, counter.counted_bytes());
  EXPECT_TRUE(device.sizes().empty());

  int64_t done = -1;
  ModelOptions with_values;
  with_values.load.observer = [&](const LoadProgress& progress) {
    done = progress.done_bytes;
    return true;
  };
  const auto loaded = load_model(Checkpoint::open(name, {}).value(), device, with_values);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_GT(done, 2 * (*loaded)->info().hidden * 1000);
  std::map<size_t, int> staging = device.sizes();
  for (const auto& [bytes, count] : counter.sizes()) staging[bytes] -= count;
  for (const auto& [bytes, count] : staging) {
    EXPECT_GE(count, 0) << bytes << " bytes were counted and not taken";
    EXPECT_TRUE(count == 0 || bytes <= size_t{64} << 20) << "staging alone may come on top";
  }
  EXPECT_EQ((*loaded)->info().weight_bytes, (*counted)->info().weight_bytes);
  EXPECT_EQ((*loaded)->workspace_bytes(512, 16), (*counted)->workspace_bytes(512, 16));
  EXPECT_EQ((*loaded)->state_needs().page_bytes(), (*counted)->state_needs().page_bytes());
}

}  // namespace
}  // namespace ashlar
