// The bare device path of a benchmark on a GPU: direct, recorded and call by call, parts of a
// prompt and decoding, all give one answer; and plain reading passes its own check.
#include <gtest/gtest.h>

#include "bench_bare.h"
#include "bench_ops.h"
#include "bench_read.h"
#include "bench_time.h"
#include "checkpoint/checkpoint.h"
#include "testing/cuda_device.h"

namespace ashlar {
namespace {

class CudaBench : public testing::Test {
 protected:
  void SetUp() override {
    ASHLAR_NEEDS_CUDA();
    checkpoint_ = Checkpoint::open("synthetic:qwen3-0.6b?layers=3&vocab=2048", HubPaths{}).value();
    ModelOptions options;
    options.context_length = 1024;
    model_ = load_model(checkpoint_, cuda_device(), options).value();
    sampling_.temperature = 0;
  }

  Result<int32_t> last_token(const std::vector<BedShape>& shapes) {
    ASHLAR_ASSIGN(const auto bed, BenchBed::create(*model_, cuda_device(), {shapes, 1, sampling_}));
    std::vector<int32_t> tokens;
    for (const BedShape& shape : shapes) {
      ASHLAR_ASSIGN(const BedStep step, bed->make_step(shape));
      bed->issue(bed->stream(), step);
      ASHLAR_ASSIGN(tokens, bed->tokens(step));
    }
    return tokens.at(0);
  }

  std::shared_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<Model> model_;
  SamplingParams sampling_;
};

TEST_F(CudaBench, PartsOfAPromptAndDecodingGiveOneAnswer) {
  const auto whole = last_token(prompt_chunks(300, 512));
  ASSERT_TRUE(whole) << whole.error().message;
  for (const int64_t rows : {299, 128, 100, 16}) {
    const auto cut = last_token(prompt_chunks(300, rows));
    ASSERT_TRUE(cut) << cut.error().message;
    EXPECT_EQ(*cut, *whole) << rows;
  }
  const auto decoded = last_token({{1, 299, 299, false}, {1, 1, 300, true}});
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, *whole);
}

TEST_F(CudaBench, RecordedAndCallByCallGiveTheSameTokens) {
  for (const int64_t sequences : {1, 3, 17, 64}) {
    const BedShape shape = {sequences, 1, 640, true};
    auto made = BenchBed::create(*model_, cuda_device(), {{shape}, 1, sampling_});
    ASSERT_TRUE(made) << made.error().message;
    BenchBed& bed = **made;
    Stream& stream = bed.stream();
    const BedStep step = bed.make_step(shape).value();
    const BedStep fresh = bed.make_step(shape).value();
    const auto again = [&] {
      cuda_device().copy(stream, step.resolve.feed.data(), fresh.resolve.feed.data(),
                         static_cast<size_t>(sequences) * 4);
    };
    bed.issue(stream, step);
    const auto direct = bed.tokens(step);
    ASSERT_TRUE(direct) << direct.error().message;
    again();
    const auto recording = record_work(stream, [&] { bed.issue(stream, step); });
    ASSERT_TRUE(recording) << recording.error().message;
    EXPECT_EQ((*recording)->ops() > 0, true);
    stream.replay(**recording);
    EXPECT_EQ(bed.tokens(step).value(), *direct) << sequences;
    again();
    const auto calls = record_work(stream, [&] {
      for (const OpCall& call : bed.calls(step)) run_call(stream, call);
    });
    ASSERT_TRUE(calls) << calls.error().message;
    stream.replay(**calls);
    EXPECT_EQ(bed.tokens(step).value(), *direct) << sequences;
  }
}

TEST_F(CudaBench, RowsOfOperationsAreMeasured) {
  const auto probe = ReadProbe::create(cuda_device(), int64_t{1} << 30);
  ASSERT_TRUE(probe) << probe.error().message;
  const BareSetup setup = {
      *model_, cuda_device(), model_matmuls(checkpoint_->config(), model_->info().decodable),
      {},      probe->get(),  sampling_};
  for (const BedShape& shape : {op_shape(2, 640), op_shape(256, 640)}) {
    const auto row = measure_op_row(setup, shape, false);
    ASSERT_TRUE(row) << row.error().message;
    for (const OpLine& line : row->lines) {
      EXPECT_GT(line.seconds, 0) << line.name;
      EXPECT_GT(median(line.alone.seconds), 0) << line.name;
    }
  }
  const auto bare = measure_bare(setup, prompt_chunks(700, 256), 3);
  ASSERT_TRUE(bare) << bare.error().message;
  EXPECT_EQ(bare->seconds.size(), 3u);
  EXPECT_GT(bare->matmul.seconds, 0);
  const auto speed = (*probe)->measure();
  ASSERT_TRUE(speed) << speed.error().message;
  EXPECT_GT(speed->gb_s, 500);
  EXPECT_GT(speed->clock_mhz, 300);
  EXPECT_LT(speed->clock_mhz, 4000);
}

}  // namespace
}  // namespace ashlar
