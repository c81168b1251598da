// qk_norm_rope_store against rotation by complex numbers in double precision; what is stored where;
// what is not touched.
#include "kernels/qk_norm_rope_store/qk_norm_rope_store.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/kv_pages.h"
#include "kernels/qk_norm_rope_store/qk_norm_rope_store_cells.h"
#include "testing/random.h"
#include "testing/vector_targets.h"

namespace ashlar {
namespace {

constexpr int64_t kPositions = 8;  // B
constexpr int64_t kSize = 6;       // K
constexpr int64_t kHeads = 4;      // H
constexpr int64_t kKvHeads = 2;    // G
constexpr int64_t kColumns = (kHeads + 2 * kKvHeads) * kSize;
constexpr float kEps = 1e-6f;

double frequency(int64_t pair) {
  return 1.0 / std::pow(100.0, 2.0 * static_cast<double>(pair) / kSize);
}

// Three rows: positions 3 and 12 of sequence 1 and 0, and padding.
struct Fixture {
  std::unique_ptr<Device> device = new_cpu_device(1);
  std::unique_ptr<Stream> stream = device->new_stream();
  std::vector<float> qkv = random_floats(7, 3 * kColumns, 2.0f);
  std::vector<float> q_norm = random_floats(8, kSize, 2.0f);
  std::vector<float> k_norm = random_floats(9, kSize, 2.0f);
  std::vector<float> cos_sin;
  std::vector<int32_t> positions = {3, 12, 0};
  std::vector<int32_t> row_sequence = {1, 0, -1};
  std::vector<int32_t> page_table = {4, 2, 1, -1};  // [2 2]
  std::vector<F16> pages = std::vector<F16>(5 * 2 * kKvHeads * kPositions * kSize, F16{0x7e00});

  Fixture() {
    for (int64_t p = 0; p < 16; ++p) {
      for (int64_t i = 0; i < kSize; ++i) {
        const double angle = static_cast<double>(p) * frequency(i % (kSize / 2));
        cos_sin.push_back(static_cast<float>(i < kSize / 2 ? std::cos(angle) : std::sin(angle)));
      }
    }
  }
  QkNormRopeStoreArgs args(bool normed) {
    return {.qkv = TensorView(qkv.data(), DType::kF32, {3, kColumns}),
            .q_norm = normed ? TensorView(q_norm.data(), DType::kF32, {kSize}) : TensorView(),
            .k_norm = normed ? TensorView(k_norm.data(), DType::kF32, {kSize}) : TensorView(),
            .eps = kEps,
            .cos_sin = TensorView(cos_sin.data(), DType::kF32, {16, kSize}),
            .positions = TensorView(positions.data(), DType::kI32, {3}),
            .row_sequence = TensorView(row_sequence.data(), DType::kI32, {3}),
            .page_table = TensorView(page_table.data(), DType::kI32, {2, 2}),
            .pages = TensorView(pages.data(), DType::kF16, {5, 2 * kKvHeads, kPositions, kSize})};
  }
};

// The head x at a position, normed if weight is not null.
std::vector<double> rotated(const float* x, const float* weight, int64_t position) {
  double sum = 0.0;
  for (int64_t k = 0; k < kSize; ++k) sum += static_cast<double>(x[k]) * x[k];
  const double inverse = 1.0 / std::sqrt(sum / kSize + kEps);
  std::vector<double> y(kSize);
  for (int64_t i = 0; i < kSize / 2; ++i) {
    const auto value = [&](int64_t k) {
      return weight == nullptr ? x[k] : x[k] * inverse * weight[k];
    };
    const std::complex<double> turned =
        std::complex<double>(value(i), value(i + kSize / 2)) *
        std::polar(1.0, static_cast<double>(position) * frequency(i));
    y[i] = turned.real();
    y[i + kSize / 2] = turned.imag();
  }
  return y;
}

void check(bool normed) {
  Fixture f;
  const std::vector<float> before = f.qkv;
  qk_norm_rope_store(*f.stream, f.args(normed));
  const KvPages<F16> pages(f.args(normed).pages);
  const int32_t page_of_row[] = {1, 2};
  for (int64_t t = 0; t < 2; ++t) {
    const float* row = &before[t * kColumns];
    const int64_t offset = f.positions[t] % kPositions;
    for (int64_t h = 0; h < kHeads; ++h) {
      const auto wanted =
          rotated(row + h * kSize, normed ? f.q_norm.data() : nullptr, f.positions[t]);
      for (int64_t k = 0; k < kSize; ++k)
        EXPECT_NEAR(f.qkv[t * kColumns + h * kSize + k], wanted[k], 2e-6);
    }
    for (int64_t g = 0; g < kKvHeads; ++g) {
      const auto wanted =
          rotated(row + (kHeads + g) * kSize, normed ? f.k_norm.data() : nullptr, f.positions[t]);
      for (int64_t k = 0; k < kSize; ++k) {
        EXPECT_NEAR(to_float(pages.keys(page_of_row[t], g)[k * kPositions + offset]), wanted[k],
                    0x1p-11 * std::abs(wanted[k]) + 1e-5);
        EXPECT_EQ(pages.values(page_of_row[t], g)[offset * kSize + k].bits,
                  to_f16(row[(kHeads + kKvHeads + g) * kSize + k]).bits);
      }
    }
  }
  // Padding is left alone, and so is all memory of pages but two positions.
  EXPECT_EQ(std::memcmp(&f.qkv[2 * kColumns], &before[2 * kColumns], kColumns * sizeof(float)), 0);
  int64_t untouched = 0;
  for (const F16 value : f.pages) untouched += value.bits == 0x7e00 ? 1 : 0;
  EXPECT_EQ(untouched, static_cast<int64_t>(f.pages.size()) - 2 * 2 * kKvHeads * kSize);
}

TEST(QkNormRopeStore, RotatesAndStores) { check(false); }
TEST(QkNormRopeStore, NormsEachHeadFirst) { check(true); }

// Rows of 40 positions, among them values that f16 holds only as infinity, subnormals and zero.
TEST(QkNormRopeStore, CpuCellHasTheBitsOfTheReference) {
  const std::unique_ptr<Device> device = new_cpu_device(2);
  const std::unique_ptr<Stream> stream = device->new_stream();
  for (const int64_t size : {32, 64, 96, 256, 48}) {
    const int64_t columns = (3 + 2 * 2) * size;
    std::vector<float> start = random_floats(20, 40 * columns, 2.0f);
    const float rare[] = {7e4f, -1e9f, 3e-6f, -2e-8f, 65519.0f, 65520.0f, 0.0f, -0.0f};
    for (size_t i = 0; i < start.size(); i += 37) start[i] = rare[i / 37 % std::size(rare)];
    std::vector<float> norm = random_floats(21, size, 1.0f);
    std::vector<float> cos_sin = random_floats(22, 40 * size, 1.0f);
    std::vector<int32_t> positions(40);
    std::iota(positions.begin(), positions.end(), 0);
    std::vector<int32_t> row_sequence(40, 0);
    std::vector<int32_t> page_table = {1, 0};
    const auto run = [&](auto cell, bool normed) {
      std::vector<float> qkv = start;
      std::vector<F16> pages(static_cast<size_t>(2 * 4 * 32 * size));
      const TensorView weight(norm.data(), DType::kF32, {size});
      cell(*stream, {.qkv = TensorView(qkv.data(), DType::kF32, {40, columns}),
                     .q_norm = normed ? weight : TensorView(),
                     .k_norm = normed ? weight : TensorView(),
                     .eps = kEps,
                     .cos_sin = TensorView(cos_sin.data(), DType::kF32, {40, size}),
                     .positions = TensorView(positions.data(), DType::kI32, {40}),
                     .row_sequence = TensorView(row_sequence.data(), DType::kI32, {40}),
                     .page_table = TensorView(page_table.data(), DType::kI32, {1, 2}),
                     .pages = TensorView(pages.data(), DType::kF16, {2, 4, 32, size})});
      std::vector<uint32_t> bits;
      for (const float v : qkv) bits.push_back(std::bit_cast<uint32_t>(v));
      for (const F16 v : pages) bits.push_back(v.bits);
      return bits;
    };
    for (const bool normed : {false, true}) {
      const std::vector<uint32_t> wanted = run(qk_norm_rope_store_reference, normed);
      for_each_vector_target([&](const char* target) {
        EXPECT_TRUE(run(qk_norm_rope_store_cpu, normed) == wanted) << target << " " << size;
      });
    }
  }
}

TEST(QkNormRopeStoreDeath, EndsTheProcessBeyondTheTableAndWithoutAPage) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  Fixture beyond;
  beyond.cos_sin.resize(12 * kSize);
  QkNormRopeStoreArgs args = beyond.args(false);
  args.cos_sin = TensorView(beyond.cos_sin.data(), DType::kF32, {12, kSize});
  EXPECT_DEATH(qk_norm_rope_store(*beyond.stream, args), "cos_sin");
  Fixture no_page;
  no_page.positions[0] = 9;
  EXPECT_DEATH(qk_norm_rope_store(*no_page.stream, no_page.args(false)), "page");
}

}  // namespace
}  // namespace ashlar
