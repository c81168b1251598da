// The read measurement reads what it says and checks that it did.
#include "bench_read.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

TEST(ReadProbe, ReadsAllOfItsBuffer) {
  const auto device = new_cpu_device(2);
  const auto probe = ReadProbe::create(*device, 3'000'000);
  ASSERT_TRUE(probe);
  const auto stream = device->new_stream();
  (*probe)->pass(*stream);
  const auto speed = (*probe)->measure();
  ASSERT_TRUE(speed) << speed.error().message;
  EXPECT_EQ(speed->bytes, 3 << 20);
  EXPECT_GT(speed->gb_s, 0);
  EXPECT_EQ(speed->clock_mhz, 0);
}

}  // namespace
}  // namespace ashlar
