// Operations come back one by one, in order, with their cost and their own time.
#include "trace/device_op_table.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace ashlar {
namespace {

TEST(DeviceOpTable, KeepsCallsApartAndInOrder) {
  const auto device = new_cpu_device(1);
  const auto stream = device->new_stream();
  DeviceOpTable table;
  for (const int milliseconds : {0, 20}) {
    const OpEvent event{milliseconds == 0 ? "rms_norm" : "matmul", 100 + milliseconds, 7};
    table.op_begin(*stream, event);
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    table.op_end(*stream, event);
  }
  const auto calls = table.take();
  ASSERT_TRUE(calls);
  ASSERT_EQ(calls->size(), 2u);
  EXPECT_EQ((*calls)[0].name, "rms_norm");
  EXPECT_EQ((*calls)[0].bytes, 100);
  EXPECT_EQ((*calls)[1].name, "matmul");
  EXPECT_EQ((*calls)[1].bytes, 120);
  EXPECT_EQ((*calls)[1].flops, 7);
  EXPECT_GE((*calls)[1].seconds, 0.020);
  EXPECT_GE((*calls)[0].seconds, 0.0);
  EXPECT_LT((*calls)[0].seconds, (*calls)[1].seconds);
  const auto again = table.take();
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->empty());
}

}  // namespace
}  // namespace ashlar
