// The bed's steps are steps: parts of a prompt, decoding and recording give one answer, as the row
// rule demands; and what the operations report is what the arithmetic of a benchmark expects.
#include "bench_bed.h"

#include <gtest/gtest.h>

#include "bench_bare.h"
#include "bench_ops.h"
#include "bench_time.h"
#include "checkpoint/checkpoint.h"
#include "testing/paths.h"

namespace ashlar {
namespace {

class BenchBedTest : public testing::Test {
 protected:
  void SetUp() override {
    device_ = new_cpu_device(2);
    checkpoint_ =
        Checkpoint::open((source_dir() / "tests/golden/tiny/gemma3.gguf").string(), HubPaths{})
            .value();
    model_ = load_model(checkpoint_, *device_, {}).value();
  }

  std::unique_ptr<BenchBed> bed(std::vector<BedShape> shapes, int64_t copies = 1) {
    SamplingParams sampling;
    sampling.temperature = 0;
    auto made = BenchBed::create(*model_, *device_, {std::move(shapes), copies, sampling});
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  // The token after a prompt, computed in these steps.
  int32_t last_token(const std::vector<BedShape>& shapes) {
    const auto own = bed(shapes);
    std::vector<int32_t> tokens;
    for (const BedShape& shape : shapes) {
      const BedStep step = own->make_step(shape).value();
      own->issue(own->stream(), step);
      tokens = own->tokens(step).value();
    }
    EXPECT_EQ(tokens.size(), 1u);
    return tokens.front();
  }
  BareSetup setup() {
    return {*model_, *device_, model_matmuls(checkpoint_->config(), model_->info().decodable),
            {},      nullptr,  {}};
  }

  std::unique_ptr<Device> device_;
  std::shared_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<Model> model_;
};

TEST_F(BenchBedTest, PartsOfAPromptAndDecodingGiveOneAnswer) {
  const int32_t whole = last_token(prompt_chunks(45, 64));
  for (const int64_t rows : {44, 16, 7, 1}) {
    EXPECT_EQ(last_token(prompt_chunks(45, rows)), whole) << rows;
  }
  EXPECT_EQ(last_token({{1, 44, 44, false}, {1, 1, 45, true}}), whole);
  // Another text has another answer, or the test could not fail.
  EXPECT_NE(last_token({{1, 43, 43, false}, {1, 1, 45, true}}), whole);
}

TEST_F(BenchBedTest, RecordedAndCallByCallGiveTheSameTokens) {
  const BedShape shape = {3, 1, 40, true};
  const auto own = bed({shape}, 2);
  const BedStep step = own->make_step(shape).value();
  Stream& stream = own->stream();
  own->issue(stream, step);
  const std::vector<int32_t> direct = own->tokens(step).value();
  const auto again = [&] {
    // The newest token is what the step chose; put the first one back.
    const BedStep fresh = own->make_step(shape).value();
    device_->copy(stream, step.resolve.feed.data(), fresh.resolve.feed.data(), 3 * 4);
  };
  again();
  const auto recording = record_work(stream, [&] { own->issue(stream, step); }).value();
  stream.replay(*recording);
  EXPECT_EQ(own->tokens(step).value(), direct);
  again();
  for (const OpCall& call : own->calls(step)) run_call(stream, call);
  EXPECT_EQ(own->tokens(step).value(), direct);
  // Without the reset the next token is another step's.
  stream.replay(*recording);
  EXPECT_NE(own->tokens(step).value(), direct);
  // Another copy has other pages of its own.
  const BedStep other = own->make_step(shape, 1).value();
  EXPECT_GE(other.page_table.as<int32_t>()[0], shape.pages());
  EXPECT_LT(step.page_table.as<int32_t>()[0], shape.pages());
}

TEST_F(BenchBedTest, MatmulsOfAStepAreFoundAndAddUp) {
  const BedShape shape = {2, 1, 40, true};
  const auto own = bed({shape});
  const BedStep step = own->make_step(shape).value();
  own->issue(own->stream(), step);
  BareSetup setup = this->setup();
  const OpCalls calls = median_calls(setup, *own, step, 1).value();
  EXPECT_EQ(calls.size(), own->calls(step).size());
  const std::vector<std::string> labels = call_labels(calls, setup, shape, false);
  int64_t named = 0;
  int64_t flops = 0;
  nlohmann::json results = nlohmann::json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].name.find("matmul") == std::string_view::npos) continue;
    named += labels[i].find(' ') != std::string::npos ? 1 : 0;
    flops += calls[i].flops;
  }
  EXPECT_EQ(named, 4 * model_->info().layers + 1);
  for (const MatmulShape& matmul : setup.matmuls) {
    results.push_back(
        {{"rows", 2}, {"outputs", matmul.outputs}, {"inputs", matmul.inputs}, {"us", 1.0}});
  }
  setup.baseline = MatmulBaseline::parse({{"results", results}}).value();
  MatmulWork work;
  add_matmul_work(setup, calls, shape, work);
  EXPECT_EQ(work.flops, static_cast<double>(flops));
  EXPECT_NEAR(work.baseline_seconds, 1e-6 * static_cast<double>(named), 1e-12);
  // A product that the baseline lacks makes the sum no comparison.
  results.erase(results.size() - 1);
  setup.baseline = MatmulBaseline::parse({{"results", results}}).value();
  MatmulWork partial;
  add_matmul_work(setup, calls, shape, partial);
  EXPECT_FALSE(partial.baseline_seconds > 0);
}

TEST_F(BenchBedTest, ARowOfOpHasEveryOperationAndItsTimeAlone) {
  const Result<OpRow> row = measure_op_row(setup(), {2, 1, 40, true}, false);
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_EQ(row->phase, "decode");
  EXPECT_EQ(row->rows, 2);
  EXPECT_GE(row->step_seconds.size(), 5u);
  int64_t calls = 0;
  for (const OpLine& line : row->lines) {
    calls += line.calls;
    EXPECT_GE(line.alone.seconds.size(), 5u) << line.name;
    EXPECT_GT(median(line.alone.seconds), 0) << line.name;
    EXPECT_GT(line.bytes, 0) << line.name;
  }
  EXPECT_EQ(calls, 77);  // 7 layers of 10 operations, and 7 around them
}

TEST_F(BenchBedTest, TooMuchIsRefused) {
  const int64_t most = model_->info().context_length;
  const auto made = BenchBed::create(*model_, *device_, {{{1, 1, most + 1, true}}, 1, {}});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("context"), std::string::npos);
}

TEST(BenchBare, PromptsAreCutIntoWholeSteps) {
  const std::vector<BedShape> chunks = prompt_chunks(1100, 512);
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[0].rows, 512);
  EXPECT_EQ(chunks[1].context, 1024);
  EXPECT_FALSE(chunks[1].wants_tokens);
  EXPECT_EQ(chunks[2].rows, 76);
  EXPECT_EQ(chunks[2].context, 1100);
  EXPECT_TRUE(chunks[2].wants_tokens);
  EXPECT_EQ(prompt_chunks(512, 512).size(), 1u);
}

TEST(BenchBare, AttentionReadsWhatItsRowsSee) {
  StateNeeds needs;
  needs.add_paged({.bytes_per_position = 100, .window = 0});
  needs.add_paged({.bytes_per_position = 10, .window = 4});
  // Two sequences of 3 rows that end at position 8; 16 columns of queries.
  const BedShape shape = {2, 3, 8, true};
  const int64_t rows_bytes = 4 * 6 * 16;
  OpCalls calls = {
      {"attention", rows_bytes, 0, 1}, {"rms_norm", 5, 7, 1}, {"attention", rows_bytes, 0, 1}};
  add_attention_cost(calls, shape, needs);
  EXPECT_EQ(calls[0].bytes, rows_bytes + 2 * 8 * 100);
  EXPECT_EQ(calls[0].flops, 4 * 2 * (6 + 7 + 8) * 16);
  EXPECT_EQ(calls[1].bytes, 5);
  // The first row sees positions 2 to 5, the last one 4 to 7.
  EXPECT_EQ(calls[2].bytes, rows_bytes + 2 * 6 * 10);
  EXPECT_EQ(calls[2].flops, 4 * 2 * (4 + 4 + 4) * 16);
  // A cost that knows the positions stays.
  OpCalls known = {{"attention", 50, 60, 1}};
  add_attention_cost(known, shape, needs);
  EXPECT_EQ(known[0].bytes, 50);
  EXPECT_EQ(known[0].flops, 60);
}

}  // namespace
}  // namespace ashlar
