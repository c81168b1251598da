// gather: each row is the truth of the row it names, times the scale, at any number of threads.
#include "kernels/gather/gather.h"

#include <gtest/gtest.h>

#include <memory>

#include "testing/random.h"

namespace ashlar {
namespace {

// A made-up packing of four signed bytes a block.
void decode_bytes(const std::byte* blocks, int64_t count, float* out) {
  for (int64_t i = 0; i < count * 4; ++i)
    out[i] = static_cast<float>(static_cast<int8_t>(blocks[i]));
}
constexpr RowCodec kBytes = {"bytes", 4, 4, decode_bytes, decode_bytes};

TEST(Gather, RowsAreTheTruthTimesTheScale) {
  const int64_t inputs = 24;
  const std::vector<std::byte> first = random_bytes(1, 30 * inputs);
  const std::vector<std::byte> second = random_bytes(2, 10 * inputs);
  const PackedRows weight[] = {{&kBytes, first.data(), 30, inputs},
                               {&kBytes, second.data(), 10, inputs}};
  std::vector<int32_t> ids = {0, 39, 29, 30, 7, 7};
  for (int i = 0; i < 40; ++i) ids.push_back(39 - i);
  const auto count = static_cast<int64_t>(ids.size());
  for (const int threads : {1, 3}) {
    for (const float scale : {1.0f, 25.298221f}) {
      const std::unique_ptr<Device> device = new_cpu_device(threads);
      const std::unique_ptr<Stream> stream = device->new_stream();
      std::vector<float> y(ids.size() * inputs);
      const GatherArgs args = {.weight = weight,
                               .ids = TensorView(ids.data(), DType::kI32, {count}),
                               .y = TensorView(y.data(), DType::kF32, {count, inputs}),
                               .scale = scale};
      gather(*stream, args);
      std::vector<float> reference(y.size());
      GatherArgs reference_args = args;
      reference_args.y = TensorView(reference.data(), DType::kF32, {count, inputs});
      gather.reference(*stream, reference_args);
      EXPECT_EQ(y, reference);
      for (int64_t t = 0; t < count; ++t) {
        const int32_t id = ids[t];
        const std::byte* row =
            id < 30 ? first.data() + id * inputs : second.data() + (id - 30) * inputs;
        for (int64_t k = 0; k < inputs; ++k) {
          ASSERT_EQ(y[t * inputs + k], static_cast<float>(static_cast<int8_t>(row[k])) * scale);
        }
      }
    }
  }
}

TEST(GatherDeathTest, AnIdBeyondTheRowsEndsTheProcess) {
  const std::vector<std::byte> data(8 * 4);
  const PackedRows weight[] = {{&kBytes, data.data(), 8, 4}};
  const std::unique_ptr<Device> device = new_cpu_device(1);
  const std::unique_ptr<Stream> stream = device->new_stream();
  std::vector<float> y(4);
  for (int32_t id : {8, -1}) {
    EXPECT_DEATH(gather(*stream, {.weight = weight,
                                  .ids = TensorView(&id, DType::kI32, {1}),
                                  .y = TensorView(y.data(), DType::kF32, {1, 4})}),
                 "Check failed|false");
  }
}

}  // namespace
}  // namespace ashlar
