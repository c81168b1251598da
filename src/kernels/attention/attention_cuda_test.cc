// attention on a GPU: against softmax in double precision within the tolerance of its roundings,
// and one answer whatever the step: decode and prefill, chunks, batch mates, padding, cuts of the
// work and what lies in unwritten positions change no bit.
#include "testing/attention_pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "testing/cuda_device.h"

namespace ashlar {
namespace {

constexpr int64_t kLength = 700;  // six tiles, the last not full
constexpr int64_t kProbes[] = {0,   1,   15,  31,  63,  126, 127, 128, 129, 200, 255,
                               256, 300, 383, 384, 511, 512, 513, 640, 641, 697, 699};

class AttentionCudaCase : public testing::TestWithParam<AttentionPoolCase> {
 protected:
  void SetUp() override {
    ASHLAR_NEEDS_CUDA();
    stream_ = cuda_device().new_stream();
  }
  std::unique_ptr<Stream> stream_;
};

TEST_P(AttentionCudaCase, IsTheSoftmax) {
  AttentionPool pool(*stream_, GetParam(), {kLength}, 1);
  const AttentionRows whole = pool.run({{0, 0, kLength}});
  for (const int64_t position : kProbes) {
    const AttentionRows alone = pool.run({{0, position, 1}});
    for (int64_t head = 0; head < GetParam().heads; ++head) {
      pool.expect_near(0, position, head, whole, position, "prefill");
      pool.expect_near(0, position, head, alone, 0, "decode");
      if (HasFailure()) return;
    }
  }
}

// Every position as one of 64 rows of a decode step, against one prefill step.
TEST_P(AttentionCudaCase, DecodeHasTheBitsOfPrefill) {
  AttentionPool pool(*stream_, GetParam(), {kLength}, 2);
  const AttentionRows whole = pool.run({{0, 0, kLength}});
  for (int64_t begin = 0; begin < kLength; begin += 64) {
    std::vector<AttentionPiece> pieces;
    for (int64_t p = begin; p < std::min(begin + 64, kLength); ++p) pieces.push_back({0, p, 1});
    const AttentionRows rows = pool.run(pieces);
    for (size_t i = 0; i < pieces.size(); ++i) {
      ASSERT_TRUE(rows.row(i) == whole.row(begin + i)) << "position " << begin + i;
    }
  }
}

TEST_P(AttentionCudaCase, ChunksChangeNoBit) {
  AttentionPool pool(*stream_, GetParam(), {kLength}, 3);
  const AttentionRows whole = pool.run({{0, 0, kLength}});
  for (const int64_t chunk : {1, 5, 16, 100, 512}) {
    for (int64_t begin = 0; begin < kLength; begin += chunk) {
      const int64_t count = std::min(chunk, kLength - begin);
      const AttentionRows rows = pool.run({{0, begin, count}});
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_TRUE(rows.row(i) == whole.row(begin + i))
            << "position " << begin + i << " in a chunk of " << chunk;
      }
    }
  }
}

// Batches of every size up to 64, in which a row is first, last and between, with and without
// padding.
TEST_P(AttentionCudaCase, BatchMatesChangeNoBit) {
  AttentionPool pool(*stream_, GetParam(), {kLength, 333, 130, 64}, 4);
  constexpr int kRows = 64;
  std::vector<AttentionPiece> pieces;
  std::vector<AttentionRow> alone;
  for (int i = 0; i < kRows; ++i) {
    const int64_t sequence = i % 4;
    pieces.push_back({sequence, (i * 37 + 11) % pool.length(sequence), 1});
    alone.push_back(pool.run({pieces.back()}).row(0));
  }
  for (int n = 2; n <= kRows; ++n) {
    std::vector<AttentionPiece> batch;
    for (int i = 0; i < n; ++i) batch.push_back(pieces[(5 * n + i) % kRows]);
    const AttentionRows rows = pool.run(batch, n % 3, n % 4);
    for (int i = 0; i < n; ++i) {
      ASSERT_TRUE(rows.row(n % 3 + i) == alone[(5 * n + i) % kRows]) << i << " of " << n;
    }
    for (int i = 0; i < n % 3; ++i) ASSERT_TRUE(rows.is_zero(i));
    for (int i = 0; i < n % 4; ++i) ASSERT_TRUE(rows.is_zero(n % 3 + n + i));
  }
}

TEST_P(AttentionCudaCase, MixedStepsChangeNoBit) {
  AttentionPool pool(*stream_, GetParam(), {kLength, 333, 130, 64}, 5);
  std::vector<AttentionRows> whole;
  for (int64_t s = 0; s < 4; ++s) whole.push_back(pool.run({{s, 0, pool.length(s)}}));
  const std::vector<std::vector<AttentionPiece>> steps = {
      {{0, 699, 1}, {1, 100, 200}, {2, 126, 3}, {3, 0, 0}, {0, 3, 33}},
      {{1, 0, 333}, {0, 640, 1}},
      {{3, 63, 1}, {2, 0, 130}, {0, 0, 700}, {1, 332, 1}, {1, 0, 0}},
      {{0, 125, 8}, {0, 120, 9}, {0, 250, 12}},
  };
  for (const std::vector<AttentionPiece>& step : steps) {
    for (const int64_t padding : {0, 5}) {
      const AttentionRows rows = pool.run(step, padding, 2 * padding);
      int64_t row = padding;
      for (int64_t i = 0; i < padding; ++i) ASSERT_TRUE(rows.is_zero(i));
      for (const AttentionPiece& piece : step) {
        for (int64_t i = 0; i < piece.count; ++i, ++row) {
          ASSERT_TRUE(rows.row(row) == whole[piece.sequence].row(piece.begin + i))
              << "sequence " << piece.sequence << ", position " << piece.begin + i;
        }
      }
      for (int64_t i = 0; i < 2 * padding; ++i) ASSERT_TRUE(rows.is_zero(row + i));
    }
  }
}

// Positions behind a row's step are NaN, in keys, values and whole pages.
TEST_P(AttentionCudaCase, UnwrittenPositionsDoNotMatter) {
  AttentionPool full(*stream_, GetParam(), {kLength}, 6);
  const AttentionRows whole = full.run({{0, 0, kLength}});
  for (const int64_t length : {1, 2, 17, 31, 32, 33, 127, 128, 129, 333, 512, 601}) {
    AttentionPool pool(*stream_, GetParam(), {kLength}, 6, length);
    const AttentionRows alone = pool.run({{0, length - 1, 1}});
    ASSERT_TRUE(alone.row(0) == whole.row(length - 1)) << "decode at " << length;
    const AttentionRows rows = pool.run({{0, 0, length}});
    for (int64_t i = 0; i < length; ++i) {
      ASSERT_TRUE(rows.row(i) == whole.row(i)) << "position " << i << " of " << length;
    }
  }
}

constexpr AttentionPoolCase kCases[] = {
    {.heads = 8, .kv_heads = 2, .size = 128},
    {.heads = 8, .kv_heads = 1, .size = 64},
    {.heads = 4, .kv_heads = 2, .size = 96},
    {.heads = 4, .kv_heads = 4, .size = 256},
    {.heads = 5, .kv_heads = 1, .size = 128},
    {.heads = 12, .kv_heads = 1, .size = 64, .page_positions = 64},
    {.heads = 8, .kv_heads = 2, .size = 128, .window = 40},
    {.heads = 2, .kv_heads = 2, .size = 128, .window = 1},
    {.heads = 4, .kv_heads = 1, .size = 256, .window = 200},
    {.heads = 4, .kv_heads = 2, .size = 64, .page_positions = 16, .window = 128},
    {.heads = 4, .kv_heads = 2, .size = 128, .soft_cap = 2.0f},
    {.heads = 2, .kv_heads = 1, .size = 256, .window = 300, .soft_cap = 50.0f},
    {.heads = 4, .kv_heads = 2, .size = 96, .soft_cap = 30.0f},
    {.heads = 3, .kv_heads = 1, .size = 64, .page_positions = 128, .soft_cap = 1.0f},
};
INSTANTIATE_TEST_SUITE_P(Cases, AttentionCudaCase, testing::ValuesIn(kCases));

class AttentionCuda : public testing::Test {
 protected:
  void SetUp() override {
    ASHLAR_NEEDS_CUDA();
    stream_ = cuda_device().new_stream();
  }
  std::unique_ptr<Stream> stream_;
};

// One sequence over all processors, then crowds whose work is cut elsewhere; three times each, so
// that a counter which was not reset shows.
TEST_F(AttentionCuda, CutsOfLongSequencesChangeNoBit) {
  const AttentionPoolCase c = {.heads = 8, .kv_heads = 2, .size = 128};
  AttentionPool pool(*stream_, c, {5000, 2500, 1290, 77}, 7);
  std::vector<AttentionRows> ends;
  for (int64_t s = 0; s < 4; ++s) ends.push_back(pool.run({{s, pool.length(s) - 40, 40}}));
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (int crowd = 1; crowd <= 48; ++crowd) {
      std::vector<AttentionPiece> pieces;
      for (int i = 0; i < crowd; ++i) {
        const int64_t s = (i + crowd) % 4;
        pieces.push_back({s, pool.length(s) - 1 - i % 40, 1});
      }
      const AttentionRows rows = pool.run(pieces);
      for (int i = 0; i < crowd; ++i) {
        ASSERT_TRUE(rows.row(i) == ends[pieces[i].sequence].row(39 - i % 40))
            << i << " of " << crowd;
      }
    }
  }
  const AttentionRows last = pool.run({{0, 4999, 1}});
  for (int64_t head = 0; head < c.heads; ++head) {
    pool.expect_near(0, 4999, head, last, 0, "decode");
  }
}

// Scores of thousands: without the maximum they would overflow.
TEST_F(AttentionCuda, SurvivesLargeScores) {
  const AttentionPoolCase c = {.heads = 4, .kv_heads = 1, .size = 128, .query_magnitude = 3e3f};
  AttentionPool pool(*stream_, c, {400}, 8);
  const AttentionRows whole = pool.run({{0, 0, 400}});
  for (int64_t p = 0; p < 400; p += 13) {
    const AttentionRows alone = pool.run({{0, p, 1}});
    ASSERT_TRUE(alone.row(0) == whole.row(p)) << p;
    for (const float value : alone.floats(0)) ASSERT_TRUE(std::abs(value) <= 1.0f) << p;
  }
}

}  // namespace
}  // namespace ashlar
