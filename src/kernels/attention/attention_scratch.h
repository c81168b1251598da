// How much scratch attention's CUDA cell needs: its decode kernel cuts the work of a step into as
// many equal runs as there are CTAs, and a run that does not begin a row's tiles keeps the part of
// each tile (attention_decode_cuda_sm90a.cu). Host arithmetic on shapes only; the CPU needs none.
#ifndef ASHLAR_KERNELS_ATTENTION_ATTENTION_SCRATCH_H_
#define ASHLAR_KERNELS_ATTENTION_ATTENTION_SCRATCH_H_

#include <algorithm>
#include <cstdint>

#include "base/align.h"
#include "device/device.h"
#include "kernels/attention/attention.h"

namespace ashlar {

struct AttentionSizes {
  int64_t rows = 0;             // T
  int64_t sequences = 0;        // S
  int64_t heads = 0;            // H
  int64_t kv_heads = 0;         // G
  int64_t head_size = 0;        // K
  int64_t table_positions = 0;  // P * B
};

constexpr int64_t kAttentionDecodePairs = 8;  // of a part

// Sequences of a call; 0: any number. A CUDA kernel keeps one number for each.
constexpr int kAttentionMaxSequences = 1024;
constexpr int64_t attention_most_sequences(Backend backend) {
  return backend == Backend::kCuda ? kAttentionMaxSequences : 0;
}

struct AttentionDecodeCut {
  int64_t ctas = 0;
  int64_t run_slots = 0;  // parts that a CTA may keep
  int64_t scratch_bytes(int64_t head_size) const {
    return ctas * (1 + run_slots) * kAttentionDecodePairs * (head_size + 2) * 4;
  }
};

// The most tiles that a step can have, counted once for each 8 (row, head) pairs that share them. A
// sequence with more rows than 32 goes to the prefill kernel, unless there are as few rows as
// sequences.
inline int64_t attention_most_work(const AttentionSizes& sizes, int64_t tiles) {
  const int64_t rows = std::min(sizes.rows, sizes.sequences * 32);
  return rows * divide_up(sizes.heads / sizes.kv_heads, kAttentionDecodePairs) * sizes.kv_heads *
         tiles;
}

inline int64_t attention_most_tiles(const AttentionSizes& sizes) {
  return std::max<int64_t>(1, divide_up(sizes.table_positions, kAttentionTile));
}

inline AttentionDecodeCut attention_decode_cut(const AttentionSizes& sizes, int64_t processors) {
  const int64_t tiles = attention_most_tiles(sizes);
  const int64_t work = attention_most_work(sizes, tiles);
  const int64_t ctas = std::min(work, processors);
  return {ctas, std::min(tiles, divide_up(work, ctas))};
}

// Enough for every call with at most these sizes, on a device with at most 160 multiprocessors. 0
// on the CPU.
inline int64_t attention_scratch_bytes(Backend backend, const AttentionSizes& sizes) {
  if (backend == Backend::kCpu || sizes.rows == 0) return 0;
  const int64_t tiles = attention_most_tiles(sizes);
  const int64_t work = attention_most_work(sizes, tiles);
  const int64_t ctas = std::min<int64_t>(work, 160);
  const int64_t parts = ctas + std::min(ctas * tiles, work + ctas);
  return parts * kAttentionDecodePairs * (sizes.head_size + 2) * 4;
}

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_ATTENTION_ATTENTION_SCRATCH_H_
