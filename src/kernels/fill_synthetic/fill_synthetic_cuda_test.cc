// fill_synthetic on the CUDA device gives the bits of its reference: at any alignment, length and
// start, far out in a large tensor, too.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/fill_synthetic/fill_synthetic.h"
#include "testing/cuda_device.h"
#include "testing/device_tensors.h"
#include "testing/timing_cuda.h"

namespace ashlar {
namespace {

TEST(FillSyntheticCuda, EqualsItsReferenceBitForBit) {
  ASHLAR_NEEDS_CUDA();
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  constexpr int64_t kCount = 100'003;
  for (const SyntheticValues& values :
       {SyntheticValues{0x97ff67a6405a155u, 0.0f, 0.0156f / 37837.2f},
        SyntheticValues{0xfedcba9876543210u, 1.0f, 0.05f / 37837.2f}}) {
    for (const int64_t first :
         {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{622'000'003}, int64_t{1} << 40}) {
      for (const int64_t offset : {0, 1, 4, 8}) {
        DeviceTensors tensors(*stream);
        const TensorView all = tensors.make(DType::kBF16, {kCount + 16});
        fill_synthetic(*stream,
                       {.values = values, .first = first, .y = all.slice_rows(offset, kCount)});
        const std::vector<BF16> made = tensors.read<BF16>(all);
        int64_t wrong = 0;
        for (int64_t i = 0; i < kCount; ++i) {
          wrong += made[static_cast<size_t>(offset + i)].bits !=
                   synthetic_bf16(values, static_cast<uint64_t>(first + i));
        }
        EXPECT_EQ(wrong, 0) << "first " << first << ", offset " << offset;
        for (int64_t i = 0; i < kCount + 16; ++i) {
          if (i >= offset && i < offset + kCount) continue;
          ASSERT_EQ(made[static_cast<size_t>(i)].bits, 0xffff) << "written outside, at " << i;
        }
      }
    }
  }
}

// All matrices of an 8B model are 8 billion elements, 13 times as many as here.
TEST(FillSyntheticCuda, DISABLED_Speed) {
  ASHLAR_NEEDS_CUDA();
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  const Shape shape = {151936, 4096};
  const Buffer buffer = cuda_device().allocate(static_cast<size_t>(shape.count() * 2)).value();
  const TensorView y = buffer.view(DType::kBF16, shape);
  const SyntheticValues values = {.key = 7, .mean = 0.0f, .scale = 1e-6f};
  const double us = microseconds_a_call(
      *stream, 10, [&](int) { fill_synthetic(*stream, {.values = values, .y = y}); });
  print_speed("fill_synthetic 151936 x 4096", us, shape.count() * 2);
}

}  // namespace
}  // namespace ashlar
