// The functions of device_math.cuh have the bits of those of activation.h, over all exponents.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "device/launch_cuda.h"
#include "kernels/hopper/dependent_launch.cuh"
#include "kernels/math/activation.h"
#include "kernels/math/device_math.cuh"
#include "testing/cuda_device.h"
#include "testing/device_tensors.h"

namespace ashlar {
namespace {

enum class Which { kExp2, kExp2OfWeight, kExp, kSilu, kGelu, kRsqrt, kTanh, kBf16, kF16, kPair };

__global__ void apply(Which which, const float* x, float* y, int count) {
  wait_for_predecessor();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  switch (which) {
    case Which::kExp2:
      y[i] = device_exp2(x[i]);
      break;
    case Which::kExp2OfWeight:
      y[i] = device_exp2_of_weight(-fabsf(x[i]));
      break;
    case Which::kExp:
      y[i] = device_exp(x[i]);
      break;
    case Which::kSilu:
      y[i] = device_silu(x[i]);
      break;
    case Which::kGelu:
      y[i] = device_gelu_tanh(x[i]);
      break;
    case Which::kRsqrt:
      y[i] = device_rsqrt(x[i]);
      break;
    case Which::kTanh:
      y[i] = device_tanh(x[i]);
      break;
    case Which::kBf16:
      y[i] = __bfloat162float(round_bf16(x[i]));
      break;
    case Which::kF16:
      y[i] = __half2float(round_f16(x[i]));
      break;
    case Which::kPair:
      y[i] = bf16_high(round_bf16_pair(1.0f, x[i])) + bf16_low(round_bf16_pair(0.0f, x[i]));
      break;
  }
}

// Every 1009th f32 of both signs, and the ends.
std::vector<float> sweep() {
  std::vector<float> values = {0.0f, -0.0f, INFINITY, -INFINITY, NAN};
  for (uint32_t bits = 1; bits < 0x7f800000u; bits += 1009) {
    values.push_back(std::bit_cast<float>(bits));
    values.push_back(-std::bit_cast<float>(bits));
  }
  return values;
}

std::vector<float> on_device(Which which, const std::vector<float>& x) {
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  DeviceTensors tensors(*stream);
  const TensorView in = tensors.from(x);
  const TensorView out = tensors.make(DType::kF32, in.shape());
  const int count = static_cast<int>(x.size());
  launch(*stream, "apply", apply, {.grid = dim3((count + 255) / 256), .block = dim3(256)}, which,
         in.as<float>(), out.as<float>(), count);
  return tensors.read<float>(out);
}

template <class Function>
void expect_bits(Which which, const Function& function) {
  const std::vector<float> x = sweep();
  const std::vector<float> y = on_device(which, x);
  int64_t wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const float wanted = function(x[i]);
    const bool same = std::isnan(wanted)
                          ? std::isnan(y[i])
                          : std::bit_cast<uint32_t>(wanted) == std::bit_cast<uint32_t>(y[i]);
    if (!same && ++wrong < 5) ADD_FAILURE() << x[i] << ": " << y[i] << " against " << wanted;
  }
  EXPECT_EQ(wrong, 0);
}

TEST(DeviceMath, HasTheBitsOfTheCpu) {
  ASHLAR_NEEDS_CUDA();
  expect_bits(Which::kExp2, [](float x) { return exp2(x); });
  expect_bits(Which::kExp2OfWeight, [](float x) { return exp2_of_weight(-std::abs(x)); });
  expect_bits(Which::kExp, [](float x) { return exp(x); });
  expect_bits(Which::kSilu, [](float x) { return silu(x); });
  expect_bits(Which::kGelu, [](float x) { return gelu_tanh(x); });
  expect_bits(Which::kRsqrt, [](float x) { return rsqrt(x); });
}

TEST(DeviceMath, RoundsAsTheCpu) {
  ASHLAR_NEEDS_CUDA();
  expect_bits(Which::kBf16, [](float x) { return to_float(to_bf16(x)); });
  expect_bits(Which::kF16, [](float x) { return to_float(to_f16(x)); });
  expect_bits(Which::kPair, [](float x) { return to_float(to_bf16(x)) + 0.0f; });
}

TEST(DeviceMath, TanhIsWithinThreeUlps) {
  ASHLAR_NEEDS_CUDA();
  const std::vector<float> x = sweep();
  const std::vector<float> y = on_device(Which::kTanh, x);
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) continue;
    const double exact = std::tanh(static_cast<double>(x[i]));
    const double ulp =
        std::max(std::ldexp(1.0, std::ilogb(std::max(std::abs(exact), 1e-300)) - 23), 0x1p-149);
    ASSERT_LE(std::abs(static_cast<double>(y[i]) - exact), 3.0 * ulp) << x[i];
  }
}

}  // namespace
}  // namespace ashlar
