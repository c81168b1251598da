// Slabs: buffers do not overlap, are aligned, and outlive the object that cut them.
#include "device/slabs.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace ashlar {
namespace {

TEST(Slabs, BuffersAreApartAndKeepWhatIsWritten) {
  auto slabs = std::make_unique<Slabs>();
  std::vector<Buffer> buffers;
  for (size_t i = 0; i < 60; ++i) {  // three slabs and more
    const size_t bytes = i % 3 == 0 ? Slabs::kLargest : Slabs::kSmallest + i;
    buffers.push_back(slabs->allocate(bytes));
    ASSERT_NE(buffers.back().data(), nullptr);
    EXPECT_EQ(buffers.back().bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffers.back().data()) % 64, 0u);
    std::memset(buffers.back().data(), static_cast<int>(i), bytes);
  }
  for (size_t i = 0; i < 60; i += 2) buffers[i] = Buffer();
  slabs.reset();
  for (size_t i = 1; i < 60; i += 2) {
    const auto* bytes = static_cast<const unsigned char*>(buffers[i].data());
    EXPECT_EQ(bytes[0], i);
    EXPECT_EQ(bytes[buffers[i].bytes() - 1], i);
  }
}

}  // namespace
}  // namespace ashlar
