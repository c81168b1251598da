// How fast tile_matmul is: all matmuls of one step of an 8B model, and its shapes at many rows. Not
// run unless asked for (--gtest_also_run_disabled_tests --gtest_filter='*TileMatmulSpeed*').
// Weights are random bits of small numbers, each matrix its own, so that nothing stays in L2.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "kernels/tile_matmul/tile_matmul.h"
#include "testing/cuda_device.h"
#include "testing/device_tensor.h"
#include "testing/random.h"
#include "testing/timing_cuda.h"

namespace ashlar {
namespace {

constexpr int64_t kScratchBytes = int64_t{256} << 20;

class TileMatmulSpeed : public testing::Test {
 protected:
  struct Matrix {
    TileShape shape;
    Buffer buffer;
  };

  void SetUp() override {
    ASHLAR_NEEDS_CUDA();
    stream_ = cuda_device().new_stream();
    const std::vector<float> values = random_floats(1, int64_t{1} << 20, 0.05f);
    seed_ = std::make_unique<DeviceTensor>(*stream_, DType::kBF16,
                                           Shape{static_cast<int64_t>(values.size())}, values);
    x_ = filled(int64_t{8192} * 12288 * 2);
    y_ = filled(int64_t{8192} * 24576 * 4);
    scratch_ = filled(kScratchBytes);
  }

  Buffer filled(int64_t bytes) {
    Result<Buffer> buffer = cuda_device().allocate(static_cast<size_t>(bytes));
    CHECK(buffer.has_value());
    std::byte* to = static_cast<std::byte*>(buffer->data());
    for (int64_t done = 0; done < bytes;) {
      const int64_t more = std::min(bytes - done, done == 0 ? int64_t{2} << 20 : done);
      cuda_device().copy(*stream_, to + done, done == 0 ? seed_->view().data() : to,
                         static_cast<size_t>(more));
      done += more;
    }
    expect_done(*stream_);
    return *std::move(buffer);
  }

  Matrix matrix(TileShape shape) { return {shape, filled(shape.bf16_bytes())}; }

  // Gated: SiLU into bf16; more inputs than outputs or a square: added to f32; else bf16.
  void multiply(const Matrix& matrix, int64_t rows) {
    const TileShape& shape = matrix.shape;
    const bool residual = !shape.gated && shape.inputs >= shape.outputs;
    const int64_t columns = shape.gated ? shape.outputs / 2 : shape.outputs;
    Epilogue epilogue;
    epilogue.add_to_output = residual;
    if (shape.gated) epilogue.gated = GatedActivation::kSilu;
    tile_matmul(*stream_, {.x = x_.view(DType::kBF16, {rows, shape.inputs}),
                           .weight = {shape, matrix.buffer.view(DType::kU8, {shape.bf16_bytes()})},
                           .y = y_.view(residual ? DType::kF32 : DType::kBF16, {rows, columns}),
                           .epilogue = epilogue,
                           .scratch = scratch_.view(DType::kU8, {kScratchBytes})});
  }

  std::unique_ptr<Stream> stream_;
  std::unique_ptr<DeviceTensor> seed_;
  Buffer x_, y_, scratch_;
};

int64_t logical_bytes(const TileShape& shape) { return shape.outputs * shape.inputs * 2; }

TEST_F(TileMatmulSpeed, DISABLED_Step) {
  std::vector<Matrix> step;
  int64_t bytes = 0;
  for (int layer = 0; layer < 36; ++layer) {
    for (const TileShape shape : {TileShape{6144, 4096}, TileShape{4096, 4096},
                                  TileShape{24576, 4096, true}, TileShape{4096, 12288}}) {
      step.push_back(matrix(shape));
    }
  }
  step.push_back(matrix({151936, 4096}));
  for (const Matrix& m : step) bytes += logical_bytes(m.shape);
  for (const int64_t rows : {1, 2, 4, 8, 16, 32, 64}) {
    const double microseconds = microseconds_a_call(*stream_, 1, [&](int) {
      for (const Matrix& m : step) multiply(m, rows);
    });
    char what[64];
    std::snprintf(what, sizeof(what), "8B step, %lld rows", static_cast<long long>(rows));
    print_speed(what, microseconds, bytes);
  }
}

TEST_F(TileMatmulSpeed, DISABLED_Shapes) {
  for (const TileShape shape :
       {TileShape{6144, 4096}, TileShape{4096, 4096}, TileShape{24576, 4096, true},
        TileShape{4096, 12288}, TileShape{2560, 4096}, TileShape{2560, 9728},
        TileShape{3840, 15360}, TileShape{248077, 2560}, TileShape{248192, 2560}}) {
    std::vector<Matrix> copies;
    const int64_t count = std::max<int64_t>(2, 400'000'000 / logical_bytes(shape));
    for (int64_t i = 0; i < count; ++i) copies.push_back(matrix(shape));
    for (const int64_t rows : {1, 16, 64, 65, 96, 128, 256, 512, 2048, 8192}) {
      if (rows > 64 && shape.outputs > 100'000) continue;
      const double microseconds =
          microseconds_a_call(*stream_, static_cast<int>(count),
                              [&](int i) { multiply(copies[static_cast<size_t>(i)], rows); });
      const double tera = 2e-6 * static_cast<double>(rows * shape.outputs * shape.inputs);
      std::printf("%6lld x %-6lld %5lld rows %9.2f us %6.0f GB/s %6.1f TFLOP/s  %s\n",
                  static_cast<long long>(shape.outputs), static_cast<long long>(shape.inputs),
                  static_cast<long long>(rows), microseconds,
                  static_cast<double>(logical_bytes(shape)) * 1e-3 / microseconds,
                  tera / microseconds, tile_matmul_kernel(shape, rows).c_str());
    }
  }
}

}  // namespace
}  // namespace ashlar
