// gather_rows copies the asked rows, also from a strided matrix, and none when none are asked.
#include "kernels/gather_rows/gather_rows.h"

#include <gtest/gtest.h>

#include <vector>

namespace ashlar {
namespace {

TEST(GatherRows, CopiesRowsInTheOrderAsked) {
  const std::unique_ptr<Device> device = new_cpu_device(1);
  const std::unique_ptr<Stream> stream = device->new_stream();
  std::vector<float> x = {0, 1, -1, 10, 11, -1, 20, 21, -1};
  std::vector<int32_t> rows = {2, 0, 2};
  std::vector<float> y(6);
  gather_rows(*stream, {.x = TensorView(x.data(), DType::kF32, {3, 2}, 3),
                        .rows = TensorView(rows.data(), DType::kI32, {3}),
                        .y = TensorView(y.data(), DType::kF32, {3, 2})});
  EXPECT_EQ(y, (std::vector<float>{20, 21, 0, 1, 20, 21}));
}

TEST(GatherRows, DoesNothingForNoRows) {
  const std::unique_ptr<Device> device = new_cpu_device(1);
  const std::unique_ptr<Stream> stream = device->new_stream();
  std::vector<float> x = {1, 2};
  gather_rows(*stream, {.x = TensorView(x.data(), DType::kF32, {1, 2}),
                        .rows = TensorView(nullptr, DType::kI32, {0}),
                        .y = TensorView(nullptr, DType::kF32, {0, 2})});
}

}  // namespace
}  // namespace ashlar
