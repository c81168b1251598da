// How fast attention is, in the shape of an 8B model (32 heads of 128, 8 of keys): not run unless
// asked for (--gtest_also_run_disabled_tests --gtest_filter='*AttentionSpeed*'). Calls are recorded
// into a graph and rotate over more pages than L2 holds.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_scratch.h"
#include "testing/cuda_device.h"
#include "testing/device_tensor.h"
#include "testing/random.h"
#include "testing/timing_cuda.h"

namespace ashlar {
namespace {

constexpr int64_t kHeads = 32;
constexpr int64_t kKvHeads = 8;
constexpr int64_t kSize = 128;
constexpr int64_t kPage = 32;

struct Speed {
  int64_t sequences;
  int64_t rows;    // of each sequence
  int64_t length;  // of each sequence, its rows included
};

class AttentionSpeed : public testing::Test {
 protected:
  void SetUp() override {
    ASHLAR_NEEDS_CUDA();
    stream_ = cuda_device().new_stream();
  }

  // `count` copies of a page.
  Buffer filled(TensorView page, int64_t count) {
    const size_t bytes = static_cast<size_t>(page.shape().count()) * 2;
    Result<Buffer> buffer = cuda_device().allocate(bytes * static_cast<size_t>(count));
    CHECK(buffer.has_value());
    std::byte* to = static_cast<std::byte*>(buffer->data());
    cuda_device().copy(*stream_, to, page.data(), bytes);
    for (size_t done = 1; done < static_cast<size_t>(count);) {
      const size_t more = std::min(done, static_cast<size_t>(count) - done);
      cuda_device().copy(*stream_, to + done * bytes, to, more * bytes);
      done += more;
    }
    return *std::move(buffer);
  }

  // Microseconds a call.
  double measure(const Speed& s) {
    const int64_t pages_of_sequence = divide_up(s.length, kPage);
    const int64_t pages = s.sequences * pages_of_sequence;
    const int64_t page_numbers = 2 * kKvHeads * kPage * kSize;
    const int64_t copies = divide_up(int64_t{400} << 20, pages * page_numbers * 2);
    const std::vector<float> pattern = random_floats(1, page_numbers, 1.0f);
    const DeviceTensor page(*stream_, DType::kBF16, Shape{page_numbers}, pattern);
    std::vector<Buffer> kv;
    for (int64_t i = 0; i < copies; ++i) kv.push_back(filled(page.view(), pages));
    const int64_t rows = s.sequences * s.rows;
    std::vector<int32_t> positions, starts = {0}, table;
    for (int64_t q = 0; q < s.sequences; ++q) {
      for (int64_t r = 0; r < s.rows; ++r)
        positions.push_back(static_cast<int32_t>(s.length - s.rows + r));
      starts.push_back(static_cast<int32_t>(positions.size()));
      for (int64_t p = 0; p < pages_of_sequence; ++p)
        table.push_back(
            static_cast<int32_t>((p * 7919 + q) % pages_of_sequence + q * pages_of_sequence));
    }
    const DeviceTensor q(*stream_, DType::kBF16, Shape{rows, kHeads * kSize},
                         random_floats(2, rows * kHeads * kSize, 1.0f));
    const DeviceTensor y(*stream_, DType::kBF16, Shape{rows, kHeads * kSize});
    const DeviceTensor position_array(*stream_, Shape{rows}, positions);
    const DeviceTensor start_array(*stream_, Shape{s.sequences + 1}, starts);
    const DeviceTensor table_array(*stream_, Shape{s.sequences, pages_of_sequence}, table);
    const DeviceTensor scratch(
        *stream_, DType::kF32,
        Shape{attention_scratch_bytes(Backend::kCuda, {.rows = rows,
                                                       .sequences = s.sequences,
                                                       .heads = kHeads,
                                                       .kv_heads = kKvHeads,
                                                       .head_size = kSize,
                                                       .table_positions = s.length}) /
              4});
    const auto call = [&](int64_t i) {
      attention(*stream_, {.q = q.view(),
                           .pages = kv[i % copies].view(DType::kBF16,
                                                        Shape{pages, 2 * kKvHeads, kPage, kSize}),
                           .page_table = table_array.view(),
                           .positions = position_array.view(),
                           .sequence_starts = start_array.view(),
                           .y = y.view(),
                           .scale = 0.088388f,
                           .scratch = scratch.view()});
    };
    return microseconds_a_call(*stream_, static_cast<int>(std::max<int64_t>(copies, 8)), call);
  }

  std::unique_ptr<Stream> stream_;
};

TEST_F(AttentionSpeed, DISABLED_Decode) {
  for (const int64_t length : {128, 640, 2048, 8192, 32768}) {
    for (const int64_t sequences : {1, 2, 4, 8, 16, 64}) {
      if (length * sequences > 32 * 8192) continue;
      const double us = measure({sequences, 1, length});
      const double bytes = static_cast<double>(sequences * length) * kKvHeads * kSize * 4;
      std::printf("decode  %3ld x %6ld positions: %8.2f us, %6.0f GB/s\n", sequences, length, us,
                  bytes / us * 1e-3);
    }
  }
}

TEST_F(AttentionSpeed, DISABLED_Prefill) {
  const Speed cases[] = {{1, 2048, 2048}, {1, 8192, 8192}, {1, 16384, 16384}, {4, 2048, 2048},
                         {1, 512, 8192},  {1, 2048, 8192}, {1, 64, 8192}};
  for (const Speed& s : cases) {
    const double us = measure(s);
    const double keys = static_cast<double>(s.rows) *
                        (static_cast<double>(s.length) - static_cast<double>(s.rows - 1) / 2);
    const double flops = 4.0 * kHeads * kSize * keys * static_cast<double>(s.sequences);
    std::printf("prefill %3ld x %5ld rows to %6ld: %9.1f us, %6.1f TFLOP/s\n", s.sequences, s.rows,
                s.length, us, flops / us * 1e-6);
  }
}

}  // namespace
}  // namespace ashlar
