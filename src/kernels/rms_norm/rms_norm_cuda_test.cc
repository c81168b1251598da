// rms_norm on the CUDA device: against exact sums, the row rule, and one tree in all its kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/rms_norm/rms_norm.h"
#include "testing/cuda_row_rule.h"
#include "testing/device_tensors.h"
#include "testing/random.h"
#include "testing/timing_cuda.h"
#include "testing/tolerance.h"

namespace ashlar {
namespace {

constexpr float kEps = 1e-6f;

// The exact row, and how far f32 may be from it, relative: half of the roundings in the sum count,
// since the root halves them; then the root, two products.
std::vector<double> exact_norm(const float* x, const std::vector<float>& weight) {
  double sum = 0.0;
  for (size_t d = 0; d < weight.size(); ++d) sum += static_cast<double>(x[d]) * x[d];
  const double inverse = 1.0 / std::sqrt(sum / static_cast<double>(weight.size()) + kEps);
  std::vector<double> y;
  for (size_t d = 0; d < weight.size(); ++d) y.push_back(x[d] * inverse * weight[d]);
  return y;
}
double relative_tolerance(int64_t size) {
  const double chain = std::ceil(static_cast<double>(size) / 256.0) + 4.0 + 8.0;
  return (chain / 2 + 6) * kF32Epsilon;
}

TEST(RmsNormCuda, IsCloseToTheExactNorm) {
  ASHLAR_NEEDS_CUDA();
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  for (const int64_t size :
       {4, 70, 576, 640, 1001, 1024, 2048, 2560, 3584, 4096, 5120, 6144, 8192, 12288}) {
    const int64_t rows = 5;
    DeviceTensors tensors(*stream);
    const std::vector<float> x = random_floats(1, rows * size, 3.0f);
    const std::vector<float> weight = random_floats(2, size, 2.0f);
    const std::vector<float> old = random_floats(3, rows * size, 1.0f);
    RmsNormArgs args = {.x = tensors.from(x, {rows, size}),
                        .weight = tensors.from(weight),
                        .y = tensors.make(DType::kF32, {rows, size}),
                        .eps = kEps};
    rms_norm(*stream, args);
    const std::vector<float> y = tensors.read<float>(args.y);
    args.y = tensors.make(DType::kBF16, {rows, size});
    rms_norm(*stream, args);
    const std::vector<BF16> rounded = tensors.read<BF16>(args.y);
    args.y = tensors.from(old, {rows, size});
    args.add_to_output = true;
    rms_norm(*stream, args);
    const std::vector<float> added = tensors.read<float>(args.y);
    for (int64_t t = 0; t < rows; ++t) {
      const std::vector<double> exact = exact_norm(&x[t * size], weight);
      for (int64_t d = 0; d < size; ++d) {
        const int64_t i = t * size + d;
        ASSERT_NEAR(y[i], exact[d], std::abs(exact[d]) * relative_tolerance(size) + 1e-37)
            << size << " at " << t << " " << d;
        ASSERT_EQ(rounded[i].bits, to_bf16(y[i]).bits) << size << " at " << t << " " << d;
        ASSERT_EQ(added[i], y[i] + old[i]) << size << " at " << t << " " << d;
      }
    }
  }
}

// Rows that start at odd addresses take the kernel of single elements, in place and strided.
TEST(RmsNormCuda, AllKernelsHaveOneTree) {
  ASHLAR_NEEDS_CUDA();
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  const int64_t rows = 3;
  for (const int64_t size : {576, 1024, 4096, 8192}) {
    DeviceTensors tensors(*stream);
    const std::vector<float> x = random_floats(4, rows * size, 3.0f);
    std::vector<float> strided(static_cast<size_t>(rows * (size + 1)), NAN);
    for (int64_t i = 0; i < rows * size; ++i) strided[i + i / size] = x[i];
    const TensorView weight = tensors.from(random_floats(5, size, 2.0f));
    const TensorView y = tensors.make(DType::kF32, {rows, size});
    rms_norm(*stream, {.x = tensors.from(x, {rows, size}), .weight = weight, .y = y, .eps = kEps});
    const TensorView odd = tensors.from(strided);
    const TensorView odd_rows(odd.data(), DType::kF32, {rows, size}, size + 1);
    rms_norm(*stream, {.x = odd_rows, .weight = weight, .y = odd_rows, .eps = kEps});
    const std::vector<float> wanted = tensors.read<float>(y);
    const std::vector<float> made = tensors.read<float>(odd);
    for (int64_t i = 0; i < rows * size; ++i) ASSERT_EQ(made[i + i / size], wanted[i]) << i;
    EXPECT_TRUE(std::isnan(made[static_cast<size_t>(size)])) << "the gap between rows was written";
  }
}

TEST(RmsNormCuda, RowRule) {
  ASHLAR_NEEDS_CUDA();
  for (const int64_t size : {70, 576, 4096}) {
    const std::vector<float> x = random_floats(6, kRowRuleRows * size, 2.0f);
    const std::vector<float> weight = random_floats(7, size, 1.0f);
    for (const DType type : {DType::kBF16, DType::kF32}) {
      expect_cuda_row_rule([&](Stream& stream, const std::vector<int>& rows) {
        std::vector<float> in;
        for (const int row : rows) {
          for (int64_t d = 0; d < size; ++d)
            in.push_back(row == kPaddingRow ? NAN : x[row * size + d]);
        }
        DeviceTensors tensors(stream);
        const Shape shape{static_cast<int64_t>(rows.size()), size};
        const TensorView y = tensors.make(type, shape);
        rms_norm(
            stream,
            {.x = tensors.from(in, shape), .weight = tensors.from(weight), .y = y, .eps = kEps});
        return type == DType::kF32 ? bytes_of_rows(tensors.read<float>(y), rows.size())
                                   : bytes_of_rows(tensors.read<BF16>(y), rows.size());
      });
    }
  }
}

TEST(RmsNormCuda, DISABLED_Speed) {
  ASHLAR_NEEDS_CUDA();
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  const int64_t size = 4096;
  for (const int64_t rows : {1, 16, 64, 2048}) {
    DeviceTensors tensors(*stream);
    const RmsNormArgs args = {.x = tensors.make(DType::kF32, {rows, size}, 0),
                              .weight = tensors.make(DType::kF32, {size}, 0),
                              .y = tensors.make(DType::kBF16, {rows, size}, 0),
                              .eps = kEps};
    const double us = microseconds_a_call(*stream, 200, [&](int) { rms_norm(*stream, args); });
    const std::string what = fmt::format("rms_norm {} x {} (in L2)", rows, size);
    print_speed(what.c_str(), us, rms_norm.cost(args).bytes);
  }
}

}  // namespace
}  // namespace ashlar
