// tile_matmul on a GPU: against the reference within the tolerance of its sums, and the row rule:
// the same bits for a row at every number of rows, so in every kernel, alone, first, last, padded.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "kernels/tile_matmul/tile_matmul.h"
#include "testing/cuda_device.h"
#include "testing/device_tensor.h"
#include "testing/random.h"
#include "testing/tolerance.h"

namespace ashlar {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A weight on the device, and its rows.
struct Made {
  Made(Stream& stream, TileShape shape, uint64_t seed)
      : shape(shape),
        rows(random_floats(seed, shape.outputs * shape.inputs, 1.0f)),
        data(stream, DType::kU8, {shape.bf16_bytes()}) {
    const DeviceTensor plain(stream, DType::kF32, {shape.outputs, shape.inputs}, rows);
    tile_clear(stream, {.weight = weight()});
    // In two parts, as fused weights come.
    const int64_t first = shape.outputs / 2;
    tile_pack(stream, {.rows = plain.view().slice_rows(0, first), .first = 0, .weight = weight()});
    tile_pack(stream, {.rows = plain.view().slice_rows(first, shape.outputs - first),
                       .first = first,
                       .weight = weight()});
    expect_done(stream);
  }
  TileWeight weight() const { return {shape, data.view()}; }

  TileShape shape;
  std::vector<float> rows;
  DeviceTensor data;
};

// tile_matmul with scratch of its own.
void multiply(Stream& stream, TileMatmulArgs args) {
  const int64_t bytes = tile_matmul_scratch_bytes(args.weight.shape, args.x.dim(0));
  const DeviceTensor scratch(stream, DType::kU8, {bytes});
  if (bytes > 0) args.scratch = scratch.view();
  tile_matmul(stream, args);
  expect_done(stream);
}

class TileMatmulCuda : public testing::Test {
 protected:
  void SetUp() override {
    ASHLAR_NEEDS_CUDA();
    device_ = &cuda_device();
    stream_ = device_->new_stream();
  }

  // y of rows [begin, begin + count) of x, as bytes a row.
  std::vector<std::vector<std::byte>> run(const Made& made, const DeviceTensor& x, int64_t begin,
                                          int64_t count, DType type, Epilogue epilogue = {}) {
    const int64_t columns = made.shape.gated ? made.shape.outputs / 2 : made.shape.outputs;
    const DeviceTensor y(*stream_, type, {count, columns}, epilogue.add_to_output ? 0x3f : 0xff);
    multiply(*stream_, {.x = x.view().slice_rows(begin, count),
                        .weight = made.weight(),
                        .y = y.view(),
                        .epilogue = epilogue});
    const std::vector<std::byte> all = y.bytes(*stream_);
    const size_t row_bytes = all.size() / static_cast<size_t>(count);
    std::vector<std::vector<std::byte>> rows;
    for (int64_t i = 0; i < count; ++i) {
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(i * row_bytes);
      rows.emplace_back(from, from + static_cast<std::ptrdiff_t>(row_bytes));
    }
    return rows;
  }

  Device* device_ = nullptr;
  std::unique_ptr<Stream> stream_;
};

TEST_F(TileMatmulCuda, PackingPutsEveryValueWhereTheReferenceDoes) {
  for (const TileShape shape : {TileShape{136, 72}, TileShape{272, 200, true}}) {
    const Made made(*stream_, shape, 3);
    const std::unique_ptr<Device> cpu = new_cpu_device(1);
    const std::unique_ptr<Stream> host = cpu->new_stream();
    std::vector<float> rows = made.rows;
    std::vector<std::byte> wanted(static_cast<size_t>(shape.bf16_bytes()));
    const TileWeight weight{shape, TensorView(wanted.data(), DType::kU8, {shape.bf16_bytes()})};
    tile_clear(*host, {.weight = weight});
    tile_pack(*host, {.rows = TensorView(rows.data(), DType::kF32, {shape.outputs, shape.inputs}),
                      .weight = weight});
    EXPECT_TRUE(made.data.bytes(*stream_) == wanted);
  }
}

// The exact sums in double precision of the rounded operands.
TEST_F(TileMatmulCuda, SumsAreWithinTheirTolerance) {
  for (const TileShape shape : {TileShape{128, 64}, TileShape{576, 576}, TileShape{1000, 1536},
                                TileShape{640, 4096}, TileShape{136, 72}}) {
    const Made made(*stream_, shape, 5);
    for (const int64_t rows : {1, 8, 13, 32, 60, 96, 128, 300, 1000}) {
      const std::vector<float> values = random_floats(7, rows * shape.inputs, 1.0f);
      const DeviceTensor x(*stream_, DType::kBF16, {rows, shape.inputs}, values);
      const DeviceTensor y(*stream_, DType::kF32, {rows, shape.outputs});
      multiply(*stream_, {.x = x.view(), .weight = made.weight(), .y = y.view()});
      const std::vector<float> got = y.floats(*stream_);
      for (int64_t m = 0; m < rows; m += rows > 100 ? 37 : 1) {
        for (int64_t n = 0; n < shape.outputs; n += 7) {
          double exact = 0, x2 = 0, w2 = 0;
          for (int64_t k = 0; k < shape.inputs; ++k) {
            const double a = to_float(to_bf16(values[m * shape.inputs + k]));
            const double b = to_float(to_bf16(made.rows[n * shape.inputs + k]));
            exact += a * b;
            x2 += a * a;
            w2 += b * b;
          }
          // The instruction keeps fewer bits below its largest addend than f32 would.
          const double tolerance = dot_tolerance({.x_norm = std::sqrt(x2),
                                                  .w_norm = std::sqrt(w2),
                                                  .length = shape.inputs,
                                                  .chains = 16,
                                                  .accumulator_epsilon = 4 * kF32Epsilon});
          ASSERT_NEAR(got[m * shape.outputs + n], exact, tolerance)
              << shape.outputs << " x " << shape.inputs << ", " << rows << " rows, [" << m << " "
              << n << "], " << tile_matmul_kernel(shape, rows);
        }
      }
    }
  }
}

TEST_F(TileMatmulCuda, ARowHasTheSameBitsInEveryKernel) {
  constexpr int64_t kRows = 2100;
  for (const TileShape shape : {TileShape{640, 576}, TileShape{1024, 4096}, TileShape{6144, 1024},
                                TileShape{17000, 512}, TileShape{1280, 2560}}) {
    const Made made(*stream_, shape, 11);
    const DeviceTensor x(*stream_, DType::kBF16, {kRows, shape.inputs},
                         random_floats(13, kRows * shape.inputs, 1.0f));
    const auto all = run(made, x, 0, kRows, DType::kF32);
    for (const int64_t count :
         {1,  2,   7,   8,   9,   15,  16,  17,  31,  32,  33,  63,  64,  65,   96,
          97, 100, 128, 129, 192, 255, 256, 257, 512, 513, 700, 768, 769, 1000, 1024}) {
      for (const int64_t begin : {int64_t{0}, int64_t{5}, kRows - count}) {
        const auto some = run(made, x, begin, count, DType::kF32);
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_TRUE(some[i] == all[begin + i])
              << shape.outputs << " x " << shape.inputs << ", row " << begin + i << " as " << i
              << " of " << count << " in " << tile_matmul_kernel(shape, count) << ", not as in "
              << tile_matmul_kernel(shape, kRows);
        }
      }
    }
  }
}

TEST_F(TileMatmulCuda, EpiloguesAreThePlainSumsAndThenTheirOperations) {
  const TileShape plain_shape{768, 576};
  const TileShape gated_shape{768, 576, true};
  const Made plain(*stream_, plain_shape, 17);
  const Made gated(*stream_, gated_shape, 17);
  const std::vector<float> bias_values = random_floats(19, 768, 3.0f);
  const DeviceTensor bias(*stream_, DType::kF32, {768}, bias_values);
  for (const int64_t rows : {1, 16, 33, 64, 90, 128, 200, 900}) {
    const DeviceTensor x(*stream_, DType::kBF16, {rows, 576}, random_floats(23, rows * 576, 1.0f));
    const DeviceTensor sums(*stream_, DType::kF32, {rows, 768});
    multiply(*stream_, {.x = x.view(), .weight = plain.weight(), .y = sums.view()});
    const std::vector<float> s = sums.floats(*stream_);
    const auto with_bias = [&](int64_t m, int64_t n) { return s[m * 768 + n] + bias_values[n]; };

    const DeviceTensor rounded(*stream_, DType::kBF16, {rows, 768});
    multiply(*stream_, {.x = x.view(),
                        .weight = plain.weight(),
                        .y = rounded.view(),
                        .epilogue = {.bias = bias.view()}});
    const std::vector<float> before = random_floats(29, rows * 768, 10.0f);
    const DeviceTensor residual(*stream_, DType::kF32, {rows, 768}, before);
    multiply(*stream_, {.x = x.view(),
                        .weight = plain.weight(),
                        .y = residual.view(),
                        .epilogue = {.bias = bias.view(), .add_to_output = true}});
    const std::vector<float> r = rounded.floats(*stream_);
    const std::vector<float> a = residual.floats(*stream_);
    for (int64_t i = 0; i < rows * 768; ++i) {
      ASSERT_EQ(r[i], to_float(to_bf16(with_bias(i / 768, i % 768)))) << rows << " rows, " << i;
      ASSERT_EQ(a[i], before[i] + with_bias(i / 768, i % 768)) << rows << " rows, " << i;
    }
    for (const GatedActivation activation : {GatedActivation::kSilu, GatedActivation::kGeluTanh}) {
      const DeviceTensor y(*stream_, DType::kBF16, {rows, 384});
      multiply(*stream_, {.x = x.view(),
                          .weight = gated.weight(),
                          .y = y.view(),
                          .epilogue = {.bias = bias.view(), .gated = activation}});
      const std::vector<float> g = y.floats(*stream_);
      for (int64_t i = 0; i < rows * 384; ++i) {
        const int64_t m = i / 384, f = i % 384;
        const float wanted = apply_gate(activation, with_bias(m, f), with_bias(m, 384 + f));
        ASSERT_EQ(g[i], to_float(to_bf16(wanted))) << rows << " rows, " << i;
      }
    }
  }
}

// Outputs that fill no tile: the bias ends with them (memcheck sees a read beyond), and what lies
// beside a bf16 y stays as it was, whichever way it leaves.
TEST_F(TileMatmulCuda, BiasAndOutputEndWithinATile) {
  for (const bool gated : {false, true}) {
    const TileShape shape{.outputs = 272, .inputs = 192, .gated = gated};
    const int64_t columns = gated ? 136 : 272;
    const Made made(*stream_, shape, 47);
    const DeviceTensor bias(*stream_, DType::kF32, {272}, random_floats(53, 272, 3.0f));
    Epilogue epilogue;
    epilogue.bias = bias.view();
    if (gated) epilogue.gated = GatedActivation::kSilu;
    const DeviceTensor all_x(*stream_, DType::kBF16, {900, 192}, random_floats(59, 900 * 192, 1));
    const auto alone = run(made, all_x, 3, 1, DType::kBF16, epilogue);
    for (const int64_t rows : {5, 40, 90, 200, 900}) {
      const DeviceTensor y(*stream_, DType::kBF16, {rows + 2, columns + 8}, 0x11);
      multiply(*stream_, {.x = all_x.view().slice_rows(0, rows),
                          .weight = made.weight(),
                          .y = y.view().slice_rows(1, rows).slice_columns(0, columns),
                          .epilogue = epilogue});
      const std::vector<std::byte> got = y.bytes(*stream_);
      const int64_t stride = (columns + 8) * 2;
      for (int64_t i = 0; i < (rows + 2) * stride; ++i) {
        const int64_t m = i / stride - 1, at = i % stride;
        if (m >= 0 && m < rows && at < columns * 2) continue;
        ASSERT_EQ(got[static_cast<size_t>(i)], std::byte{0x11}) << rows << " rows, byte " << i;
      }
      for (int64_t at = 0; at < columns * 2; ++at) {
        ASSERT_EQ(got[static_cast<size_t>(4 * stride + at)], alone[0][static_cast<size_t>(at)])
            << rows << " rows, byte " << at;
      }
    }
  }
}

// Columns that no token has: of rows that are NaN here, so that reading one would show.
TEST_F(TileMatmulCuda, ColumnsBeyondTheDecodableAreMasked) {
  const TileShape shape{1000, 256};
  Made made(*stream_, shape, 31);
  for (const int64_t decodable : {1, 63, 64, 65, 500, 640, 999, 1000}) {
    const DeviceTensor poison(*stream_, DType::kBF16, {shape.outputs - decodable + 1, 256});
    if (decodable < shape.outputs) {
      tile_pack(*stream_, {.rows = poison.view().slice_rows(0, shape.outputs - decodable),
                           .first = decodable,
                           .weight = made.weight()});
    }
    const DeviceTensor good(*stream_, DType::kF32, {decodable, 256},
                            std::span(made.rows).first(static_cast<size_t>(decodable * 256)));
    tile_pack(*stream_, {.rows = good.view(), .first = 0, .weight = made.weight()});
    for (const int64_t rows : {1, 16, 70, 200, 1000}) {
      const DeviceTensor x(*stream_, DType::kBF16, {rows, 256},
                           random_floats(37, rows * 256, 1.0f));
      const DeviceTensor y(*stream_, DType::kF32, {rows, 1000});
      multiply(*stream_, {.x = x.view(),
                          .weight = made.weight(),
                          .y = y.view(),
                          .epilogue = {.decodable = decodable}});
      const std::vector<float> got = y.floats(*stream_);
      for (int64_t i = 0; i < rows * 1000; ++i) {
        if (i % 1000 < decodable) {
          ASSERT_TRUE(std::isfinite(got[i])) << decodable << ", " << rows << " rows, " << i;
        } else {
          ASSERT_EQ(got[i], -std::numeric_limits<float>::infinity())
              << decodable << ", " << rows << " rows, " << i;
        }
      }
    }
  }
}

// What lies beside x and y stays out of the sums and untouched.
TEST_F(TileMatmulCuda, RowsAndColumnsBesideTheMatricesDoNotMatter) {
  const TileShape shape{192, 200};
  const Made made(*stream_, shape, 41);
  for (const int64_t rows : {1, 5, 20, 50, 70, 100, 150, 800}) {
    std::vector<float> wide(static_cast<size_t>((rows + 2) * 256), kNan);
    const std::vector<float> values = random_floats(43, rows * 200, 1.0f);
    for (int64_t i = 0; i < rows * 200; ++i) wide[(i / 200 + 1) * 256 + i % 200] = values[i];
    const DeviceTensor padded(*stream_, DType::kBF16, {rows + 2, 256}, wide);
    const DeviceTensor x(*stream_, DType::kBF16, {rows, 200}, values);
    const DeviceTensor y(*stream_, DType::kF32, {rows + 2, 200}, 0x11);
    const DeviceTensor wanted(*stream_, DType::kF32, {rows, 192});
    multiply(*stream_, {.x = padded.view().slice_rows(1, rows).slice_columns(0, 200),
                        .weight = made.weight(),
                        .y = y.view().slice_rows(1, rows).slice_columns(0, 192)});
    multiply(*stream_, {.x = x.view(), .weight = made.weight(), .y = wanted.view()});
    const std::vector<float> got = y.floats(*stream_);
    const std::vector<float> plain = wanted.floats(*stream_);
    float untouched;
    std::memset(&untouched, 0x11, 4);
    for (int64_t i = 0; i < (rows + 2) * 200; ++i) {
      const int64_t m = i / 200 - 1, n = i % 200;
      const bool inside = m >= 0 && m < rows && n < 192;
      ASSERT_EQ(got[i], inside ? plain[m * 192 + n] : untouched) << rows << " rows, " << i;
    }
  }
}

}  // namespace
}  // namespace ashlar
