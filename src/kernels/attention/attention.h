// attention: softmax(q K^T * scale) V over the pages of a sequence; causal, grouped, with an
// optional sliding window.
//
// The numeric definition, the same bits for decode, any cut of a prompt and any number of threads
// (docs/numerics.md has it in full): keys come in tiles of kAttentionTile positions that begin at
// multiples of it, whatever the row or the window. In a tile, scores are FMA chains over the head
// size, the softmax is taken over what the row sees, and the output is one FMA chain over
// positions. Tiles merge strictly left to right. A row reads no key and no value beyond its own
// position, so what lies there, even NaN, has no effect.
//
// On CUDA q, y and pages are bf16 and a page's keys lie as its values do, [B K]; products are
// tensor-core chains and weights are rounded to bf16 (attention_score.cuh).
#ifndef ASHLAR_KERNELS_ATTENTION_ATTENTION_H_
#define ASHLAR_KERNELS_ATTENTION_ATTENTION_H_

#include "kernels/op.h"

namespace ashlar {

constexpr int64_t kAttentionTile = 128;

struct AttentionArgs {
  TensorView q;           // [T H*K] f32 (bf16 on CUDA), rows may be strided
  TensorView pages;       // [pages 2G B K] f32, f16 or bf16 as in kv_pages.h; B divides the tile
  TensorView page_table;  // [S P] i32
  TensorView positions;   // [T] i32
  TensorView sequence_starts;  // [S+1] i32; rows outside every sequence are padding: y is 0
  TensorView y;                // [T H*K] as q; does not overlap q
  float scale = 0.0f;
  int64_t window = 0;       // a row sees its own position and the window - 1 before it; 0: all
  float soft_cap = 0.0f;    // c > 0: a score is c * tanh(q.k * scale / c); CUDA alone
  TensorView scratch = {};  // f32 of at least attention_scratch_bytes() on CUDA; else not used
};

extern const Op<AttentionArgs> attention;

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_ATTENTION_ATTENTION_H_
