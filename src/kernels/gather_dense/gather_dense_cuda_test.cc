// gather_dense and gather_rows on the CUDA device have the bits of their references.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/gather_dense/gather_dense.h"
#include "kernels/gather_rows/gather_rows.h"
#include "testing/cuda_row_rule.h"
#include "testing/device_tensors.h"
#include "testing/random.h"
#include "testing/timing_cuda.h"

namespace ashlar {
namespace {

template <class T>
std::vector<T> weight_of(int64_t count) {
  std::vector<T> values;
  for (const float v : random_floats(1, count, 0.05f)) {
    if constexpr (std::is_same_v<T, F16>) {
      values.push_back(to_f16(v));
    } else if constexpr (std::is_same_v<T, BF16>) {
      values.push_back(to_bf16(v));
    } else {
      values.push_back(v);
    }
  }
  return values;
}

template <class T>
void check_dense(int64_t columns, float scale) {
  constexpr int64_t kRows = 50;
  std::vector<T> weight = weight_of<T>(kRows * columns);
  std::vector<int32_t> ids = {0, 49, 7, 7, 31};
  const int64_t count = static_cast<int64_t>(ids.size());
  const std::unique_ptr<Device> cpu = new_cpu_device(1);
  const std::unique_ptr<Stream> cpu_stream = cpu->new_stream();
  std::vector<float> wanted(static_cast<size_t>(count * columns));
  gather_dense(*cpu_stream,
               {.weight = TensorView(weight.data(), DTypeOf<T>::value, {kRows, columns}),
                .ids = TensorView(ids.data(), DType::kI32, {count}),
                .y = TensorView(wanted.data(), DType::kF32, {count, columns}),
                .scale = scale});
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  DeviceTensors tensors(*stream);
  const TensorView y = tensors.make(DType::kF32, {count, columns});
  gather_dense(*stream, {.weight = tensors.from(weight, {kRows, columns}),
                         .ids = tensors.from(ids),
                         .y = y,
                         .scale = scale});
  EXPECT_EQ(tensors.read<float>(y), wanted) << columns << " columns";
}

TEST(GatherDenseCuda, HasTheBitsOfTheReference) {
  ASHLAR_NEEDS_CUDA();
  for (const int64_t columns : {8, 70, 576, 2560, 4096, 4099}) {
    for (const float scale : {1.0f, 50.596443f}) {
      check_dense<float>(columns, scale);
      check_dense<F16>(columns, scale);
      check_dense<BF16>(columns, scale);
    }
  }
}

TEST(GatherDenseCuda, RowRule) {
  ASHLAR_NEEDS_CUDA();
  const int64_t columns = 576;
  const std::vector<BF16> weight = weight_of<BF16>((kRowRuleRows + 1) * columns);
  expect_cuda_row_rule([&](Stream& stream, const std::vector<int>& rows) {
    std::vector<int32_t> ids;
    for (const int row : rows) ids.push_back(row == kPaddingRow ? kRowRuleRows : row);
    DeviceTensors tensors(stream);
    const TensorView y = tensors.make(DType::kF32, {static_cast<int64_t>(rows.size()), columns});
    gather_dense(stream, {.weight = tensors.from(weight, {kRowRuleRows + 1, columns}),
                          .ids = tensors.from(ids),
                          .y = y,
                          .scale = 25.298221f});
    return bytes_of_rows(tensors.read<float>(y), rows.size());
  });
}

TEST(GatherRowsCuda, CopiesRowsInTheOrderAsked) {
  ASHLAR_NEEDS_CUDA();
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  for (const int64_t columns : {1, 70, 1024, 4096, 5001}) {
    DeviceTensors tensors(*stream);
    const std::vector<float> x = random_floats(3, 20 * columns, 1.0f);
    const std::vector<int32_t> rows = {19, 0, 5, 5};
    const TensorView y = tensors.make(DType::kF32, {4, columns});
    gather_rows(*stream, {.x = tensors.from(x, {20, columns}), .rows = tensors.from(rows), .y = y});
    std::vector<float> wanted;
    for (const int32_t row : rows)
      wanted.insert(wanted.end(), x.begin() + row * columns, x.begin() + (row + 1) * columns);
    EXPECT_EQ(tensors.read<float>(y), wanted);
  }
  DeviceTensors tensors(*stream);
  gather_rows(*stream, {.x = tensors.make(DType::kF32, {1, 8}),
                        .rows = tensors.make(DType::kI32, {0}),
                        .y = tensors.make(DType::kF32, {0, 8})});
  EXPECT_TRUE(stream->synchronize());
}

TEST(GatherDenseCuda, DISABLED_Speed) {
  ASHLAR_NEEDS_CUDA();
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  const int64_t columns = 4096;
  for (const int64_t rows : {1, 16, 64, 2048}) {
    DeviceTensors tensors(*stream);
    std::vector<int32_t> ids;
    Random random(4);
    for (int64_t t = 0; t < rows; ++t) ids.push_back(static_cast<int32_t>(random.below(32768)));
    const GatherDenseArgs dense = {.weight = tensors.make(DType::kBF16, {32768, columns}, 0),
                                   .ids = tensors.from(ids),
                                   .y = tensors.make(DType::kF32, {rows, columns}, 0)};
    const double us = microseconds_a_call(*stream, 200, [&](int) { gather_dense(*stream, dense); });
    print_speed(fmt::format("gather_dense bf16 {} x {} (in L2)", rows, columns).c_str(), us,
                gather_dense.cost(dense).bytes);
    const GatherRowsArgs copy = {.x = dense.y,
                                 .rows = tensors.make(DType::kI32, {rows}, 0),
                                 .y = tensors.make(DType::kF32, {rows, columns}, 0)};
    const double copy_us =
        microseconds_a_call(*stream, 200, [&](int) { gather_rows(*stream, copy); });
    print_speed(fmt::format("gather_rows {} x {} (in L2)", rows, columns).c_str(), copy_us,
                gather_rows.cost(copy).bytes);
  }
}

}  // namespace
}  // namespace ashlar
