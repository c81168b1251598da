// gather_dense: each row is the named row of the weight, widened, times the scale.
#include "kernels/gather_dense/gather_dense.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace ashlar {
namespace {

std::vector<float> gathered(TensorView weight, std::vector<int32_t> ids, float scale) {
  const std::unique_ptr<Device> device = new_cpu_device(1);
  const std::unique_ptr<Stream> stream = device->new_stream();
  const int64_t count = static_cast<int64_t>(ids.size());
  std::vector<float> y(ids.size() * static_cast<size_t>(weight.dim(1)));
  gather_dense(*stream, {.weight = weight,
                         .ids = TensorView(ids.data(), DType::kI32, {count}),
                         .y = TensorView(y.data(), DType::kF32, {count, weight.dim(1)}),
                         .scale = scale});
  return y;
}

TEST(GatherDense, WidensAndScalesTheRowsAskedFor) {
  std::vector<float> f32 = {1, 2, -9, 3, 4, -9, 5, 6, -9};  // rows of two, strided
  const TensorView strided(f32.data(), DType::kF32, {3, 2}, 3);
  EXPECT_EQ(gathered(strided, {2, 0, 2}, 1.0f), (std::vector<float>{5, 6, 1, 2, 5, 6}));
  EXPECT_EQ(gathered(strided, {1}, 0.5f), (std::vector<float>{1.5f, 2}));
  std::vector<BF16> bf16 = {to_bf16(1.0f), to_bf16(-3.5f)};
  EXPECT_EQ(gathered(TensorView(bf16.data(), DType::kBF16, {2, 1}), {1, 0}, 2.0f),
            (std::vector<float>{-7, 2}));
  std::vector<F16> f16 = {to_f16(0.25f), to_f16(1000.0f)};
  EXPECT_EQ(gathered(TensorView(f16.data(), DType::kF16, {1, 2}), {0}, 1.0f),
            (std::vector<float>{0.25f, 1000}));
}

TEST(GatherDenseDeathTest, AnIdBeyondTheRowsEndsTheProcess) {
  std::vector<float> weight = {1, 2};
  for (const int32_t id : {2, -1}) {
    EXPECT_DEATH(gathered(TensorView(weight.data(), DType::kF32, {2, 1}), {id}, 1.0f),
                 "Check failed|id");
  }
}

}  // namespace
}  // namespace ashlar
