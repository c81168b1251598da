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

TEST(Slabs, SmallBuffersFillWhatLargeOnesLeave) {
  Slabs slabs;
  const Buffer first = slabs.allocate(Slabs::kLargest);
  std::vector<Buffer> others;
  for (int i = 0; i < 3; ++i) others.push_back(slabs.allocate(Slabs::kLargest));
  // Three fit beside the head of a slab, so the last of these began another.
  const Buffer small = slabs.allocate(Slabs::kSmallest);
  EXPECT_EQ(static_cast<const std::byte*>(small.data()),
            static_cast<const std::byte*>(first.data()) + 3 * Slabs::kLargest);
}

// More slabs than stay open: the fullest are closed, and none is freed under its buffers.
TEST(Slabs, ClosedSlabsKeepTheirBuffers) {
  Slabs slabs;
  std::vector<Buffer> buffers;
  for (int i = 0; i < 30; ++i) {  // ten slabs
    buffers.push_back(slabs.allocate(Slabs::kLargest));
    ASSERT_NE(buffers.back().data(), nullptr);
    std::memset(buffers.back().data(), i, 64);
  }
  for (int i = 0; i < 30; ++i) EXPECT_EQ(*static_cast<const unsigned char*>(buffers[i].data()), i);
}

}  // namespace
}  // namespace ashlar
