// The scratch of attention's CUDA cell, as the host reckons it: no GPU is needed.
#include "kernels/attention/attention_scratch.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

// The contract's scratch bound covers what every call takes.
TEST(AttentionScratch, BoundCoversSmallerCalls) {
  const AttentionSizes most = {.rows = 512,
                               .sequences = 64,
                               .heads = 32,
                               .kv_heads = 8,
                               .head_size = 128,
                               .table_positions = 8192};
  const int64_t bound = attention_scratch_bytes(Backend::kCuda, most);
  for (int64_t rows = 1; rows <= most.rows; rows += 3) {
    for (const int64_t sequences : {1, 2, 7, 64}) {
      for (const int64_t processors : {1, 78, 132, 160}) {
        AttentionSizes sizes = most;
        sizes.rows = rows;
        sizes.sequences = sequences;
        EXPECT_LE(attention_decode_cut(sizes, processors).scratch_bytes(128), bound);
      }
    }
  }
  EXPECT_EQ(attention_scratch_bytes(Backend::kCpu, most), 0);
}

}  // namespace
}  // namespace ashlar
