// Every way of the CUDA kernel reads every word once; sizes that end within a tile and within a row
// of threads.
#include <gtest/gtest.h>

#include "kernels/read_bytes/read_bytes.h"
#include "testing/cuda_device.h"
#include "testing/device_tensors.h"
#include "testing/random.h"

namespace ashlar {
namespace {

TEST(CudaReadBytes, EveryWayCountsEveryWordOnce) {
  ASHLAR_NEEDS_CUDA();
  const auto stream = cuda_device().new_stream();
  for (const int64_t bytes : {32, 4096, 65536, 65536 + 32, 50'000'000 / 32 * 32, 1 << 26}) {
    Random random(static_cast<uint64_t>(bytes));
    std::vector<int32_t> words(static_cast<size_t>(bytes / 4));
    uint32_t wanted = 0;
    for (int32_t& word : words) {
      word = static_cast<int32_t>(random.below(int64_t{1} << 32));
      wanted += static_cast<uint32_t>(word);
    }
    DeviceTensors tensors(*stream);
    const TensorView data(tensors.from(words).data(), DType::kU8, {bytes});
    for (int way = 0; way < kReadWays; ++way) {
      const TensorView sums = tensors.from(std::vector<int32_t>(kReadSums, 0));
      const TensorView clock = tensors.from(std::vector<float>(2, 0.0f));
      for (int pass = 0; pass < 2; ++pass) {
        read_bytes(*stream, {.data = data, .sums = sums, .clock = clock, .way = way});
      }
      uint32_t got = 0;
      for (const int32_t sum : tensors.read<int32_t>(sums)) got += static_cast<uint32_t>(sum);
      EXPECT_EQ(got, 2 * wanted) << bytes << ", way " << way;
      const std::vector<float> taken = tensors.read<float>(clock);
      EXPECT_EQ(taken[0] > 0, way == 0) << bytes << ", way " << way;
    }
  }
}

}  // namespace
}  // namespace ashlar
