// What the host part of attention's CUDA cell hands to its two kernels. Both compute one numeric
// definition (attention_score.cuh); which of them serves a sequence is decided on the device, by
// the rows that the sequence has in this step, and changes no bit.
#ifndef ASHLAR_KERNELS_ATTENTION_ATTENTION_CUDA_H_
#define ASHLAR_KERNELS_ATTENTION_ATTENTION_CUDA_H_

#include <cuda.h>

#include <cstdint>

#include "device/device.h"
#include "kernels/attention/attention_scratch.h"

namespace ashlar {

constexpr int kDecodePairs = 8;  // (row, head of a group) pairs of one decode block
constexpr int kFewPairs = 32;    // of a sequence: more go to the prefill kernel

// A kernel parameter, by value. Strides are in elements.
struct AttentionCudaArgs {
  const uint16_t* q;               // [T H*K] bf16
  uint16_t* y;                     // [T H*K] bf16
  const int32_t* page_table;       // [S P]
  const int32_t* positions;        // [T], ascending within a sequence
  const int32_t* sequence_starts;  // [S+1]
  float* scratch;  // decode: [ctas] states, then [ctas run_slots] partials, each [8 K], [8], [8]
  int64_t q_stride;
  int64_t y_stride;
  int64_t table_stride;
  int32_t rows;
  int32_t sequences;
  int32_t kv_heads;  // G
  int32_t group;     // query heads of a key head
  int32_t page_positions;
  int32_t window;  // INT32_MAX: all
  float factor;    // score to log2 units
  float cap;       // 0: none; else score = cap * tanh(product * cap_factor)
  float cap_factor;
  int32_t few_pairs;  // sequences of at most this many pairs are decode's
  int32_t run_slots;  // partials that a decode CTA may keep
  bool zero_padding;  // this launch writes zeros to rows outside every sequence
};

// pages is the map of [pages 2G B, K] in boxes of B x 64. head_size is 64, 96, 128 or 256.
void launch_attention_decode(Stream& stream, const CUtensorMap& pages,
                             const AttentionCudaArgs& args, int head_size, int ctas);
void launch_attention_prefill(Stream& stream, const CUtensorMap& pages,
                              const AttentionCudaArgs& args, int head_size, int ctas);

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_ATTENTION_ATTENTION_CUDA_H_
