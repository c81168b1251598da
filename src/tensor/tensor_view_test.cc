// Views: slices point at the right element, keep strides, and out-of-range slices end the process.
#include "tensor/tensor_view.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace ashlar {
namespace {

TEST(TensorView, SlicesOfRowsAndColumnsShareMemory) {
  std::vector<float> data(6 * 10);
  std::iota(data.begin(), data.end(), 0.0f);
  const TensorView x(data.data(), DType::kF32, {6, 10});
  const TensorView part = x.slice_rows(2, 3).slice_columns(4, 5);
  EXPECT_EQ(part.shape(), (Shape{3, 5}));
  EXPECT_EQ(part.row<float>(0)[0], 24.0f);
  EXPECT_EQ(part.row<float>(2)[4], 48.0f);
  EXPECT_FALSE(part.contiguous());
  EXPECT_TRUE(x.slice_rows(1, 2).contiguous());
  EXPECT_EQ(x.shape().text(), "[6 10]");
}

TEST(TensorViewDeathTest, RefusesWhatDoesNotFit) {
  float data[6] = {};
  const TensorView x(data, DType::kF32, {2, 3});
  EXPECT_DEATH((void)x.slice_rows(1, 2), "check failed");
  EXPECT_DEATH((void)x.slice_columns(2, 2), "check failed");
  EXPECT_DEATH((void)x.as<int32_t>(), "check failed");
}

}  // namespace
}  // namespace ashlar
