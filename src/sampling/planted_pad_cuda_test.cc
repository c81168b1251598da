// A maximum planted in the columns of a head that no token has: two masks keep it out, the one of
// the matmul and the width of the sampler, and each is tested alone. A head's rows beyond the
// decodable are padding of the tiles or rows of the checkpoint; here they win by far in every row.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/step_rows/step_rows.h"
#include "kernels/tile_matmul/tile_matmul.h"
#include "testing/cuda_device.h"
#include "testing/random.h"
#include "testing/sample_batch.h"

namespace ashlar {
namespace {

constexpr int64_t kInputs = 256;
constexpr int64_t kDecodable = 1003;
constexpr int64_t kColumns = 1100;  // of the head; the rest of its last tile is padding as well
constexpr int32_t kRows = 5;

class PlantedPad : public testing::Test {
 protected:
  void SetUp() override {
    ASHLAR_NEEDS_CUDA();
    stream_ = cuda_device().new_stream();
    tensors_.emplace(*stream_);
  }

  // Logits of kRows rows [kRows kColumns]; decodable: what the matmul masks from, 0: nothing.
  std::vector<float> logits(int64_t decodable) {
    const TileShape shape = {.outputs = kColumns, .inputs = kInputs};
    std::vector<float> w = random_floats(3, kColumns * kInputs, 0.1f);
    std::fill(w.begin() + kDecodable * kInputs, w.end(), 1.0f);
    std::vector<float> x = random_floats(5, kRows * kInputs, 1.0f);
    for (float& value : x) value = std::abs(value);  // so the planted columns win
    const TensorView data = tensors_->make(DType::kU8, {shape.bf16_bytes() + 1024});
    const size_t skip = 1024 - reinterpret_cast<uintptr_t>(data.data()) % 1024;
    const TileWeight weight = {
        shape, TensorView(data.as<uint8_t>() + skip, DType::kU8, {shape.bf16_bytes()})};
    tile_clear(*stream_, {.weight = weight});
    tile_pack(*stream_,
              {.rows = tensors_->from(rounded_to_bf16(w), {kColumns, kInputs}), .weight = weight});
    const TensorView y = tensors_->make(DType::kF32, {kRows, kColumns});
    const int64_t scratch = tile_matmul_scratch_bytes(shape, kRows);
    tile_matmul(*stream_,
                {.x = tensors_->from(rounded_to_bf16(x), {kRows, kInputs}),
                 .weight = weight,
                 .y = y,
                 .epilogue = {.decodable = decodable},
                 .scratch = scratch == 0 ? TensorView() : tensors_->make(DType::kU8, {scratch})});
    return tensors_->read<float>(y);
  }

  // One row of logits for each way of choosing.
  static std::vector<SampleRow> ways(const std::vector<float>& row) {
    std::vector<SampleRow> rows(5);
    for (SampleRow& r : rows) r.logits = row;
    rows[0].state.params.temperature = 0;
    rows[1].state.params.temperature = 1.5;
    rows[2].state.params.top_p = 1.0 / static_cast<double>(kColumns);
    rows[3].state.params.top_k = 40;
    rows[4].state.params.top_p = 0.9;
    for (SampleRow& r : rows) r.state.params.logprobs = 20;
    return rows;
  }

  // No choice and no alternative is a column beyond the decodable, and those that keep one token
  // keep the best of the rest. width: what the sampler is told.
  void expect_never_sampled(const std::vector<float>& logits, int64_t width) {
    for (int32_t r = 0; r < kRows; ++r) {
      const std::vector<float> row(logits.begin() + r * kColumns,
                                   logits.begin() + (r + 1) * kColumns);
      const auto best = static_cast<int32_t>(
          std::max_element(row.begin(), row.begin() + kDecodable) - row.begin());
      const std::vector<SampleRow> rows = ways(row);
      std::vector<const SampleRow*> pointers;
      for (const SampleRow& one : rows) pointers.push_back(&one);
      const std::vector<ChosenToken> made = sample_on_device(*stream_, pointers, width);
      for (size_t i = 0; i < made.size(); ++i) {
        EXPECT_EQ(made[i].failure, 0) << i;
        EXPECT_LT(made[i].token.token, kDecodable) << i;
        for (const TokenLogprob& top : made[i].token.top) EXPECT_LT(top.token, kDecodable) << i;
      }
      EXPECT_EQ(made[0].token.token, best) << "greedy";
      EXPECT_EQ(made[2].token.token, best) << "top_p of at most 1 / V";
    }
  }

  std::unique_ptr<Stream> stream_;
  std::optional<DeviceTensors> tensors_;
};

TEST_F(PlantedPad, TheMatmulKeepsItFromASamplerThatLooksEverywhere) {
  const std::vector<float> masked = logits(kDecodable);
  for (int32_t r = 0; r < kRows; ++r) {
    for (int64_t c = kDecodable; c < kColumns; ++c) {
      ASSERT_EQ(masked[static_cast<size_t>(r * kColumns + c)], -INFINITY) << r << " " << c;
    }
  }
  expect_never_sampled(masked, kColumns);
}

TEST_F(PlantedPad, TheSamplerDoesNotLookThere) {
  const std::vector<float> bare = logits(0);
  for (int32_t r = 0; r < kRows; ++r) {
    const auto row = bare.begin() + r * kColumns;
    ASSERT_GE(std::max_element(row, row + kColumns) - row, kDecodable) << "planted in vain";
  }
  expect_never_sampled(bare, kDecodable);
}

// The token that accept_tokens counts is the one that was chosen: greedy over planted logits.
TEST_F(PlantedPad, IsNotCounted) {
  const std::vector<float> bare = logits(0);
  std::vector<SampleRow> rows(kRows);
  std::vector<const SampleRow*> pointers;
  for (int32_t r = 0; r < kRows; ++r) {
    rows[r].logits.assign(bare.begin() + r * kColumns, bare.begin() + (r + 1) * kColumns);
    rows[r].state.params.temperature = 0;
    pointers.push_back(&rows[r]);
  }
  const SampleTokensArgs samples = upload_samples(*tensors_, *stream_, pointers, kDecodable);
  sample_tokens(*stream_, samples);
  const std::vector<int32_t> each = {0, 1, 2, 3, 4};
  const TensorView counts = tensors_->make(DType::kI32, {kRows, kColumns}, 0);
  accept_tokens(*stream_,
                {.slots = tensors_->from(each),
                 .sequence_starts = tensors_->from(std::vector<int32_t>{0, 1, 2, 3, 4, 5}),
                 .first_output = tensors_->from(each),
                 .draft_counts = tensors_->from(std::vector<int32_t>(kRows, 0)),
                 .sampled = samples.tokens,
                 .failures = samples.failures,
                 .feed = tensors_->make(DType::kI32, {kRows}, 0),
                 .lengths = tensors_->make(DType::kI32, {kRows}, 0),
                 .drafts = tensors_->make(DType::kI32, {kRows, 1}, 0),
                 .counts = counts,
                 .counted = tensors_->from(std::vector<int32_t>(kRows, 1)),
                 .accepted = tensors_->make(DType::kI32, {kRows}, 0)});
  const std::vector<int32_t> counted = tensors_->read<int32_t>(counts);
  for (int32_t r = 0; r < kRows; ++r) {
    const auto row = counted.begin() + r * kColumns;
    const auto logit = rows[r].logits.begin();
    const auto best = std::max_element(logit, logit + kDecodable) - logit;
    EXPECT_EQ(row[best], 1) << r;
    EXPECT_EQ(std::count(row, row + kColumns, 0), kColumns - 1) << r;
  }
}

}  // namespace
}  // namespace ashlar
