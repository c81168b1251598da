// qk_norm_rope_store on the CUDA device: against the CPU's on the same bf16 inputs, what it must
// not touch, and the row rule.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/kv_pages.h"
#include "kernels/kv_pages_cuda.cuh"
#include "kernels/qk_norm_rope_store/qk_norm_rope_store.h"
#include "testing/cuda_row_rule.h"
#include "testing/device_tensors.h"
#include "testing/random.h"
#include "testing/timing_cuda.h"
#include "testing/tolerance.h"

namespace ashlar {
namespace {

constexpr float kEps = 1e-6f;
constexpr int64_t kPositions = 32;  // of a page
constexpr int64_t kPages = 6;

struct HeadShape {
  int64_t heads;
  int64_t kv_heads;
  int64_t size;
};

// One step: three sequences, padding among the rows, positions across pages.
struct StoreStep {
  explicit StoreStep(HeadShape shape) : s(shape) {
    rows = static_cast<int64_t>(positions.size());
    columns = (s.heads + 2 * s.kv_heads) * s.size;
    for (const BF16 v : rounded_to_bf16(random_floats(1, rows * columns, 3.0f))) qkv.push_back(v);
    q_norm = random_floats(2, s.size, 2.0f);
    k_norm = random_floats(3, s.size, 2.0f);
    cos_sin.resize(static_cast<size_t>(64 * s.size));
    for (int64_t p = 0; p < 64; ++p) {
      for (int64_t i = 0; i < s.size / 2; ++i) {
        const double angle =
            static_cast<double>(p) * std::pow(1e4, -2.0 * static_cast<double>(i) / s.size);
        cos_sin[p * s.size + i] = static_cast<float>(std::cos(angle));
        cos_sin[p * s.size + s.size / 2 + i] = static_cast<float>(std::sin(angle));
      }
    }
  }
  Shape pages_shape() const { return {kPages, 2 * s.kv_heads, kPositions, s.size}; }
  int64_t page_of(int64_t t) const {
    return page_table[row_sequence[t] * 2 + positions[t] / kPositions];
  }

  HeadShape s;
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<int32_t> positions = {0, 31, 32, 33, 0, 7, 63};
  std::vector<int32_t> row_sequence = {0, 1, 1, 1, -1, 2, 2};
  std::vector<int32_t> page_table = {3, -1, 0, 5, 2, 1};
  std::vector<BF16> qkv;
  std::vector<float> q_norm, k_norm, cos_sin;
};

template <class T>
struct StoreResult {
  std::vector<T> qkv;
  std::vector<T> keys, values;  // [T G K], 0 for padding
};

// On the CPU in f32, with pages of f32.
StoreResult<float> on_cpu(StoreStep step, bool normed) {
  const std::unique_ptr<Device> device = new_cpu_device(1);
  const std::unique_ptr<Stream> stream = device->new_stream();
  std::vector<float> qkv = widened(step.qkv);
  std::vector<float> pages(static_cast<size_t>(step.pages_shape().count()));
  const HeadShape s = step.s;
  const TensorView pages_view(pages.data(), DType::kF32, step.pages_shape());
  qk_norm_rope_store(
      *stream,
      {.qkv = TensorView(qkv.data(), DType::kF32, {step.rows, step.columns}),
       .q_norm = normed ? TensorView(step.q_norm.data(), DType::kF32, {s.size}) : TensorView(),
       .k_norm = normed ? TensorView(step.k_norm.data(), DType::kF32, {s.size}) : TensorView(),
       .eps = kEps,
       .cos_sin = TensorView(step.cos_sin.data(), DType::kF32, {64, s.size}),
       .positions = TensorView(step.positions.data(), DType::kI32, {step.rows}),
       .row_sequence = TensorView(step.row_sequence.data(), DType::kI32, {step.rows}),
       .page_table = TensorView(step.page_table.data(), DType::kI32, {3, 2}),
       .pages = pages_view});
  StoreResult<float> result;
  result.qkv = qkv;
  const KvPages<float> kv(pages_view);
  for (int64_t t = 0; t < step.rows; ++t) {
    for (int64_t g = 0; g < s.kv_heads; ++g) {
      for (int64_t k = 0; k < s.size; ++k) {
        const bool padding = step.row_sequence[t] < 0;
        const int64_t offset = step.positions[t] % kPositions;
        result.keys.push_back(padding ? 0 : kv.keys(step.page_of(t), g)[k * kPositions + offset]);
        result.values.push_back(padding ? 0 : kv.values(step.page_of(t), g)[offset * s.size + k]);
      }
    }
  }
  return result;
}

QkNormRopeStoreArgs upload(DeviceTensors& tensors, const StoreStep& step, bool normed,
                           DType page_type) {
  return {.qkv = tensors.from(step.qkv, {step.rows, step.columns}),
          .q_norm = normed ? tensors.from(step.q_norm) : TensorView(),
          .k_norm = normed ? tensors.from(step.k_norm) : TensorView(),
          .eps = kEps,
          .cos_sin = tensors.from(step.cos_sin, {64, step.s.size}),
          .positions = tensors.from(step.positions),
          .row_sequence = tensors.from(step.row_sequence),
          .page_table = tensors.from(step.page_table, {3, 2}),
          .pages = tensors.make(page_type, step.pages_shape())};
}

float wide(float v) { return v; }
float wide(F16 v) { return to_float(v); }
float wide(BF16 v) { return to_float(v); }

// Relative to the pair that is rotated: sum tree, root, products, and the last rounding.
double tolerance_of(float low, float high, int64_t size, double epsilon) {
  const double pair = std::hypot(low, high);
  return pair * (static_cast<double>(size) / 16 + 16) * kF32Epsilon + epsilon * pair;
}

template <class T>
void check(HeadShape shape, bool normed, double epsilon) {
  SCOPED_TRACE(testing::Message() << shape.size << (normed ? " normed" : " plain"));
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  DeviceTensors tensors(*stream);
  const StoreStep step(shape);
  const StoreResult<float> wanted = on_cpu(step, normed);
  const QkNormRopeStoreArgs args = upload(tensors, step, normed, DTypeOf<T>::value);
  qk_norm_rope_store(*stream, args);
  const std::vector<BF16> qkv = tensors.read<BF16>(args.qkv);
  std::vector<T> pages = tensors.read<T>(args.pages);
  const CudaKvPages<T> kv = {pages.data(), static_cast<int32_t>(shape.kv_heads),
                             static_cast<int32_t>(kPositions), static_cast<int32_t>(shape.size)};
  const int64_t half = shape.size / 2;
  for (int64_t t = 0; t < step.rows; ++t) {
    for (int64_t c = 0; c < step.columns; ++c) {
      const int64_t i = t * step.columns + c;
      if (c >= shape.heads * shape.size || step.row_sequence[t] < 0) {
        ASSERT_EQ(qkv[i].bits, step.qkv[i].bits) << "not a query at " << t << " " << c;
        continue;
      }
      const float partner = wanted.qkv[c % shape.size < half ? i + half : i - half];
      ASSERT_NEAR(to_float(qkv[i]), wanted.qkv[i],
                  tolerance_of(wanted.qkv[i], partner, shape.size, kBF16Epsilon))
          << "query at " << t << " " << c;
    }
    if (step.row_sequence[t] < 0) continue;
    for (int64_t g = 0; g < shape.kv_heads; ++g) {
      for (int64_t k = 0; k < shape.size; ++k) {
        const int64_t i = (t * shape.kv_heads + g) * shape.size + k;
        const int64_t at = step.positions[t] % kPositions * shape.size + k;
        T& key = kv.keys(step.page_of(t), static_cast<int32_t>(g))[at];
        T& value = kv.values(step.page_of(t), static_cast<int32_t>(g))[at];
        const float partner = wanted.keys[k < half ? i + half : i - half];
        ASSERT_NEAR(wide(key), wanted.keys[i],
                    tolerance_of(wanted.keys[i], partner, shape.size, epsilon))
            << "key at " << t << " " << g << " " << k;
        ASSERT_EQ(wide(value), wanted.values[i]) << "value at " << t << " " << g << " " << k;
        std::memset(&key, 0xff, sizeof(T));
        std::memset(&value, 0xff, sizeof(T));
      }
    }
  }
  const std::vector<uint8_t> nothing(pages.size() * sizeof(T), 0xff);
  EXPECT_EQ(std::memcmp(pages.data(), nothing.data(), nothing.size()), 0)
      << "more than the rows' own positions was written";
}

TEST(QkNormRopeStoreCuda, EqualsTheCpuWithinRounding) {
  ASHLAR_NEEDS_CUDA();
  for (const HeadShape shape :
       {HeadShape{32, 8, 128}, {9, 3, 64}, {3, 1, 96}, {4, 1, 256}, {5, 2, 80}}) {
    for (const bool normed : {false, true}) {
      check<BF16>(shape, normed, kBF16Epsilon);
      check<F16>(shape, normed, kF16Epsilon);
      check<float>(shape, normed, kF32Epsilon);
    }
  }
}

// Queries, and what lies in the pages at the position of the row.
TEST(QkNormRopeStoreCuda, RowRule) {
  ASHLAR_NEEDS_CUDA();
  for (const HeadShape s : {HeadShape{6, 2, 128}, {3, 1, 64}, {3, 1, 96}, {2, 1, 256}}) {
    const int64_t columns = (s.heads + 2 * s.kv_heads) * s.size;
    const std::vector<BF16> qkv = rounded_to_bf16(random_floats(5, kRowRuleRows * columns, 2.0f));
    const std::vector<float> norm = random_floats(6, s.size, 1.0f);
    const std::vector<float> cos_sin = random_floats(7, 128 * s.size, 1.0f);
    expect_cuda_row_rule([&](Stream& stream, const std::vector<int>& rows) {
      DeviceTensors tensors(stream);
      const int64_t count = static_cast<int64_t>(rows.size());
      std::vector<BF16> in;
      std::vector<int32_t> positions, sequences, table;
      for (int64_t t = 0; t < count; ++t) {
        const int row = rows[t];
        for (int64_t c = 0; c < columns; ++c)
          in.push_back(row == kPaddingRow ? BF16{0x7fc0} : qkv[row * columns + c]);
        positions.push_back(row == kPaddingRow ? 0 : 40 + row);
        sequences.push_back(row == kPaddingRow ? -1 : static_cast<int32_t>(t));
        for (int64_t p = 0; p < 4; ++p)
          table.push_back(p == (40 + row) / kPositions ? static_cast<int32_t>(t) : -1);
      }
      const QkNormRopeStoreArgs args = {
          .qkv = tensors.from(in, {count, columns}),
          .q_norm = tensors.from(norm),
          .k_norm = tensors.from(norm),
          .eps = kEps,
          .cos_sin = tensors.from(cos_sin, {128, s.size}),
          .positions = tensors.from(positions),
          .row_sequence = tensors.from(sequences),
          .page_table = tensors.from(table, {count, 4}),
          .pages = tensors.make(DType::kBF16, {count, 2 * s.kv_heads, kPositions, s.size})};
      qk_norm_rope_store(stream, args);
      std::vector<RowBytes> made = bytes_of_rows(tensors.read<BF16>(args.qkv), rows.size());
      std::vector<BF16> pages = tensors.read<BF16>(args.pages);
      for (int64_t t = 0; t < count; ++t) {
        for (int64_t head = 0; head < 2 * s.kv_heads; ++head) {
          const int64_t at =
              ((t * 2 * s.kv_heads + head) * kPositions + positions[t] % kPositions) * s.size;
          const RowBytes more = bytes_of(&pages[at], static_cast<size_t>(s.size) * 2);
          made[t].insert(made[t].end(), more.begin(), more.end());
        }
      }
      return made;
    });
  }
}

// Steps of many rows take a kernel that gives a warp several heads.
TEST(QkNormRopeStoreCuda, ManyRowsHaveTheBitsOfFew) {
  ASHLAR_NEEDS_CUDA();
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  const int64_t rows = 200;
  for (const HeadShape s : {HeadShape{32, 8, 128}, {9, 3, 64}, {3, 1, 96}, {4, 1, 256}}) {
    const int64_t columns = (s.heads + 2 * s.kv_heads) * s.size;
    const std::vector<BF16> qkv = rounded_to_bf16(random_floats(8, rows * columns, 2.0f));
    std::vector<int32_t> positions(static_cast<size_t>(rows));
    std::iota(positions.begin(), positions.end(), 0);
    const auto run = [&](int64_t rows_of_call) {
      DeviceTensors tensors(*stream);
      const QkNormRopeStoreArgs all = {
          .qkv = tensors.from(qkv, {rows, columns}),
          .q_norm = tensors.from(random_floats(9, s.size, 1.0f)),
          .k_norm = tensors.from(random_floats(10, s.size, 1.0f)),
          .eps = kEps,
          .cos_sin = tensors.from(random_floats(11, rows * s.size, 1.0f), {rows, s.size}),
          .positions = tensors.from(positions),
          .row_sequence = tensors.make(DType::kI32, {rows}, 0),
          .page_table = tensors.from(std::vector<int32_t>{3, 1, 0, 2, 6, 5, 4}, {1, 7}),
          .pages = tensors.make(DType::kBF16, {7, 2 * s.kv_heads, kPositions, s.size})};
      for (int64_t begin = 0; begin < rows; begin += rows_of_call) {
        QkNormRopeStoreArgs part = all;
        part.qkv = all.qkv.slice_rows(begin, rows_of_call);
        part.positions = all.positions.slice_rows(begin, rows_of_call);
        part.row_sequence = all.row_sequence.slice_rows(begin, rows_of_call);
        qk_norm_rope_store(*stream, part);
      }
      std::vector<BF16> made = tensors.read<BF16>(all.qkv);
      const std::vector<BF16> pages = tensors.read<BF16>(all.pages);
      made.insert(made.end(), pages.begin(), pages.end());
      return bytes_of_rows(made, 1);
    };
    EXPECT_TRUE(run(rows) == run(50)) << s.size;
  }
}

TEST(QkNormRopeStoreCuda, DISABLED_Speed) {
  ASHLAR_NEEDS_CUDA();
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  const HeadShape s = {32, 8, 128};
  const int64_t columns = (s.heads + 2 * s.kv_heads) * s.size;
  for (const int64_t rows : {1, 16, 64, 2048}) {
    DeviceTensors tensors(*stream);
    std::vector<int32_t> positions(static_cast<size_t>(rows));
    std::iota(positions.begin(), positions.end(), 0);
    std::vector<int32_t> table(64);
    std::iota(table.begin(), table.end(), 0);
    const QkNormRopeStoreArgs args = {
        .qkv = tensors.make(DType::kBF16, {rows, columns}, 0),
        .q_norm = tensors.make(DType::kF32, {s.size}, 0),
        .k_norm = tensors.make(DType::kF32, {s.size}, 0),
        .eps = kEps,
        .cos_sin = tensors.make(DType::kF32, {2048, s.size}, 0),
        .positions = tensors.from(positions),
        .row_sequence = tensors.make(DType::kI32, {rows}, 0),
        .page_table = tensors.from(table, {1, 64}),
        .pages = tensors.make(DType::kBF16, {64, 2 * s.kv_heads, kPositions, s.size}, 0)};
    const double us =
        microseconds_a_call(*stream, 200, [&](int) { qk_norm_rope_store(*stream, args); });
    const std::string what = fmt::format("qk_norm_rope_store {} x {} (in L2)", rows, columns);
    print_speed(what.c_str(), us, qk_norm_rope_store.cost(args).bytes);
  }
}

}  // namespace
}  // namespace ashlar
