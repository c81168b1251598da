// fill_synthetic gives the elements of the tensor, from wherever it starts.
#include "kernels/fill_synthetic/fill_synthetic.h"

#include <gtest/gtest.h>

#include <vector>

namespace ashlar {
namespace {

TEST(FillSynthetic, StartsAnywhere) {
  const std::unique_ptr<Device> device = new_cpu_device(1);
  const std::unique_ptr<Stream> stream = device->new_stream();
  const SyntheticValues values = {.key = 0x97ff67a6405a155u, .mean = 0.5f, .scale = 1e-6f};
  std::vector<BF16> whole(64);
  std::vector<BF16> part(21);
  fill_synthetic(*stream, {.values = values, .y = TensorView(whole.data(), DType::kBF16, {8, 8})});
  fill_synthetic(
      *stream, {.values = values, .first = 43, .y = TensorView(part.data(), DType::kBF16, {3, 7})});
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(whole[i].bits, synthetic_bf16(values, i)) << i;
  }
  for (size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i].bits, whole[43 + i].bits) << i;
}

}  // namespace
}  // namespace ashlar
