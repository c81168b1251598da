// The layout and the segments: every output has one place, segments cover all blocks, and their
// number is the least that fills the GPU.
#include "kernels/tile_matmul/tile_layout.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/tile_matmul/tile_choice.h"

namespace ashlar {
namespace {

TEST(TileLayout, EveryOutputHasOneRow) {
  for (const bool gated : {false, true}) {
    const TileShape shape{.outputs = 272, .inputs = 64, .gated = gated};
    std::set<int64_t> rows;
    for (int64_t n = 0; n < shape.outputs; ++n) rows.insert(shape.row_of(n));
    EXPECT_EQ(static_cast<int64_t>(rows.size()), shape.outputs);
    EXPECT_EQ(*rows.rbegin(), shape.outputs - 1);
    EXPECT_EQ(shape.tiles(), 6);
  }
}

TEST(TileLayout, AGateAndItsUpAreEightRowsApart) {
  const TileShape shape{.outputs = 512, .inputs = 64, .gated = true};
  for (int64_t f = 0; f < 256; ++f) {
    EXPECT_EQ(shape.row_of(256 + f), shape.row_of(f) + kGateRun);
    EXPECT_EQ(shape.row_of(f) / kTileOutputs, f / (kTileOutputs / 2));
  }
}

TEST(TileLayout, EveryBlockHasItsOwnPlace) {
  for (const TileShape shape : {TileShape{6144, 4096}, TileShape{256, 1664}, TileShape{19456, 2560},
                                TileShape{24576, 256}, TileShape{640, 1152}}) {
    const int64_t segments = segment_count(shape);
    std::set<int64_t> places;
    for (int64_t block = 0; block < shape.blocks(); ++block) {
      places.insert(block_place(shape.blocks(), segments, block));
    }
    EXPECT_EQ(static_cast<int64_t>(places.size()), shape.blocks());
    EXPECT_GE(*places.begin(), 0);
    EXPECT_LT(*places.rbegin(), tile_blocks(shape.blocks(), segments));
    EXPECT_EQ(shape.bf16_bytes(),
              shape.tiles() * tile_blocks(shape.blocks(), segments) * kBlockBytes);
  }
}

TEST(TileLayout, SegmentsCoverTheBlocksInPairs) {
  for (const int64_t blocks : {2, 4, 10, 40, 64, 152, 192, 240}) {
    for (int64_t segments = 1; segments <= blocks / 2 && segments <= kMaxSegments; ++segments) {
      EXPECT_EQ(segment_begin(blocks, segments, 0), 0);
      EXPECT_EQ(segment_begin(blocks, segments, segments), blocks);
      for (int64_t s = 0; s < segments; ++s) {
        const int64_t length =
            segment_begin(blocks, segments, s + 1) - segment_begin(blocks, segments, s);
        EXPECT_GE(length, 2);
        EXPECT_EQ(length % 2, 0);
        EXPECT_LE(length, (blocks / 2 + segments - 1) / segments * 2);
      }
    }
  }
}

// Shapes of an 8B model, a 4B one (2,560 and 9,728) and a 12B one (3,840 and 15,360).
TEST(TileLayout, TheNumberOfSegmentsFillsTheGpu) {
  EXPECT_EQ(segment_count({6144, 4096}), 4);
  EXPECT_EQ(segment_count({4096, 4096}), 4);
  EXPECT_EQ(segment_count({24576, 4096, true}), 1);
  EXPECT_EQ(segment_count({4096, 12288}), 4);
  EXPECT_EQ(segment_count({151936, 4096}), 1);
  EXPECT_EQ(segment_count({2560, 4096}), 4);
  EXPECT_EQ(segment_count({2560, 9728}), 4);
  EXPECT_EQ(segment_count({19456, 2560, true}), 2);
  EXPECT_EQ(segment_count({3840, 15360}), 4);
  EXPECT_EQ(segment_count({8192, 3840}), 2);
  EXPECT_EQ(segment_count({128, 64}), 1);
  // A head that is filled up has as many segments as one that is not.
  EXPECT_EQ(segment_count({248077, 2560}), segment_count({248192, 2560}));
}

TEST(TileChoice, EveryNumberOfRowsHasAKernelThatTakesIt) {
  const TileShape split{4096, 4096};
  const TileShape whole{24576, 4096};
  EXPECT_EQ(choose_tile_kernel(split, 1), TileKernel::kSplitRows8);
  EXPECT_EQ(choose_tile_kernel(split, 9), TileKernel::kSplitRows16);
  EXPECT_EQ(choose_tile_kernel(split, 64), TileKernel::kSplitRows64);
  EXPECT_EQ(choose_tile_kernel(split, 65), TileKernel::kPaired96);
  EXPECT_EQ(choose_tile_kernel(split, 128), TileKernel::kPaired128);
  EXPECT_EQ(choose_tile_kernel(whole, 65), TileKernel::kPaired96);
  EXPECT_EQ(choose_tile_kernel(whole, 128), TileKernel::kManyRows128);
  EXPECT_EQ(choose_tile_kernel(split, 129), TileKernel::kManyRows128);
  EXPECT_EQ(choose_tile_kernel(split, 8192), TileKernel::kManyRows128);
  EXPECT_EQ(choose_tile_kernel(whole, 8192), TileKernel::kManyRows256);
}

}  // namespace
}  // namespace ashlar
