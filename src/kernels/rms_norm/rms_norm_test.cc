// rms_norm against double precision, on strided rows, aliased and added; a row's bits do not depend
// on its neighbours.
#include "kernels/rms_norm/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "testing/random.h"

namespace ashlar {
namespace {

constexpr float kEps = 1e-5f;

TensorView matrix(std::vector<float>& values, int64_t rows, int64_t columns, int64_t stride = 0) {
  return TensorView(values.data(), DType::kF32, {rows, columns}, stride > 0 ? stride : columns);
}

std::vector<double> exact(const float* x, const std::vector<float>& weight) {
  double sum = 0.0;
  for (size_t d = 0; d < weight.size(); ++d) sum += static_cast<double>(x[d]) * x[d];
  const double inverse = 1.0 / std::sqrt(sum / static_cast<double>(weight.size()) + kEps);
  std::vector<double> y;
  for (size_t d = 0; d < weight.size(); ++d) y.push_back(x[d] * inverse * weight[d]);
  return y;
}

class RmsNorm : public testing::TestWithParam<int64_t> {
 protected:
  std::unique_ptr<Device> device_ = new_cpu_device(2);
  std::unique_ptr<Stream> stream_ = device_->new_stream();
};

TEST_P(RmsNorm, IsTheRowOverItsRootMeanSquare) {
  const int64_t size = GetParam();
  constexpr int64_t kRows = 19;  // more than one part of the pool
  const int64_t stride = size + 3;
  std::vector<float> x = random_floats(1, kRows * stride, 4.0f);
  std::vector<float> weight = random_floats(2, size, 2.0f);
  std::vector<float> y(static_cast<size_t>(kRows * size));
  std::vector<float> added = random_floats(3, kRows * size, 1.0f);
  const std::vector<float> before = added;
  const TensorView w(weight.data(), DType::kF32, {size});
  rms_norm(
      *stream_,
      {.x = matrix(x, kRows, size, stride), .weight = w, .y = matrix(y, kRows, size), .eps = kEps});
  rms_norm(*stream_, {.x = matrix(x, kRows, size, stride),
                      .weight = w,
                      .y = matrix(added, kRows, size),
                      .eps = kEps,
                      .add_to_output = true});
  for (int64_t t = 0; t < kRows; ++t) {
    const std::vector<double> wanted = exact(&x[t * stride], weight);
    for (int64_t d = 0; d < size; ++d) {
      const double tolerance = 1e-6 * std::abs(wanted[d]) + 1e-30;
      ASSERT_NEAR(y[t * size + d], wanted[d], tolerance) << t << " " << d;
      ASSERT_EQ(added[t * size + d], before[t * size + d] + y[t * size + d]);
    }
  }
}

TEST_P(RmsNorm, GivesTheSameBitsAloneAndInPlace) {
  const int64_t size = GetParam();
  constexpr int64_t kRows = 64;
  std::vector<float> x = random_floats(4, kRows * size, 4.0f);
  std::vector<float> weight = random_floats(5, size, 2.0f);
  const TensorView w(weight.data(), DType::kF32, {size});
  std::vector<float> all = x;
  rms_norm(
      *stream_,
      {.x = matrix(all, kRows, size), .weight = w, .y = matrix(all, kRows, size), .eps = kEps});
  for (const int64_t t : {int64_t{0}, int64_t{17}, kRows - 1}) {
    std::vector<float> row(x.begin() + t * size, x.begin() + (t + 1) * size);
    std::vector<float> y(static_cast<size_t>(size));
    rms_norm(*stream_,
             {.x = matrix(row, 1, size), .weight = w, .y = matrix(y, 1, size), .eps = kEps});
    EXPECT_EQ(std::memcmp(y.data(), &all[t * size], static_cast<size_t>(size) * sizeof(float)), 0)
        << t;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, RmsNorm, testing::Values(1, 15, 16, 24, 64, 576, 2305));

TEST(RmsNormRows, AnswersZeroRowsWithEps) {
  const std::unique_ptr<Device> device = new_cpu_device(1);
  const std::unique_ptr<Stream> stream = device->new_stream();
  std::vector<float> x(32, 0.0f), weight(32, 1.0f), y(32, 7.0f);
  rms_norm(*stream, {.x = matrix(x, 1, 32),
                     .weight = TensorView(weight.data(), DType::kF32, {32}),
                     .y = matrix(y, 1, 32),
                     .eps = kEps});
  for (const float value : y) EXPECT_EQ(value, 0.0f);
}

}  // namespace
}  // namespace ashlar
