// attention: softmax(q K^T * scale) V over the pages of a sequence; causal, grouped, with an optional sliding window.
//
// The numeric definition (same bits for decode, any prefill chunking and any number of threads):
// * Keys are taken in tiles of kAttentionTile positions that begin at multiples of it, whatever the row or the window.
// * score[l] is one FMA chain over the head size from zero; with c = scale * log2(e), a tile has m = max over its
//   visible scores of score * c, p[l] = exp2(fma(score[l], c, -m)), 0 where masked.
// * The tile's output is one FMA chain over its positions from zero, p[l] * V[l]; its weight is the sum of p in 16
//   chains (position l in chain l mod 16) folded in halves.
// * Tiles merge strictly left to right: M = max(M', m), output = output' * exp2(M' - M) + tile * exp2(m - M), the sum
//   likewise. A tile without a visible key changes nothing. At the end the output is multiplied by 1 / sum.
// A row reads no key and no value beyond its own position, so what lies there, even NaN, has no effect.
#ifndef ASHLAR_KERNELS_ATTENTION_ATTENTION_H_
#define ASHLAR_KERNELS_ATTENTION_ATTENTION_H_

#include "kernels/op.h"

namespace ashlar {

constexpr int64_t kAttentionTile = 128;

struct AttentionArgs {
  TensorView q;                // [T H*K] f32, rows may be strided
  TensorView pages;            // [pages 2G B K] f32, f16 or bf16; layout in kernels/kv_pages.h; B divides the tile
  TensorView page_table;       // [S P] i32
  TensorView positions;        // [T] i32
  TensorView sequence_starts;  // [S+1] i32; rows before the first or from the last on are padding: y is 0
  TensorView y;                // [T H*K] f32; does not overlap q
  float scale = 0.0f;
  int64_t window = 0;          // a row sees its own position and the window - 1 before it; 0: all
};

extern const Op<AttentionArgs> attention;

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_ATTENTION_ATTENTION_H_
