// The sum counts every word once, whatever the size, and adds to what is there.
#include "kernels/read_bytes/read_bytes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "testing/device_tensors.h"
#include "testing/random.h"

namespace ashlar {
namespace {

TEST(ReadBytes, CountsEveryWordOnce) {
  for (const int threads : {1, 3}) {
    const auto device = new_cpu_device(threads);
    const auto stream = device->new_stream();
    for (const int64_t bytes : {32, 64, 96, 262144, 262144 + 32, 3 * 262144 - 32}) {
      Random random(static_cast<uint64_t>(bytes));
      std::vector<int32_t> words(static_cast<size_t>(bytes / 4));
      uint32_t wanted = 0;
      for (int32_t& word : words) {
        word = static_cast<int32_t>(random.below(int64_t{1} << 32));
        wanted += static_cast<uint32_t>(word);
      }
      DeviceTensors tensors(*stream);
      const TensorView data(tensors.from(words).data(), DType::kU8, {bytes});
      const TensorView sums = tensors.from(std::vector<int32_t>(kReadSums, 0));
      for (int pass = 0; pass < 2; ++pass) read_bytes(*stream, {.data = data, .sums = sums});
      uint32_t got = 0;
      for (const int32_t sum : tensors.read<int32_t>(sums)) got += static_cast<uint32_t>(sum);
      EXPECT_EQ(got, 2 * wanted) << bytes;
    }
  }
}

}  // namespace
}  // namespace ashlar
