// gather: y[t] = W[ids[t]] * scale, rows of a packed matrix as f32: the embedding of tokens.
// Decoded values are the codec's truth, the product rounds once; a scale of 1 changes nothing.
#ifndef ASHLAR_KERNELS_GATHER_GATHER_H_
#define ASHLAR_KERNELS_GATHER_GATHER_H_

#include <span>

#include "kernels/op.h"
#include "kernels/packed/packed_rows.h"

namespace ashlar {

struct GatherArgs {
  std::span<const PackedRows> weight;  // N rows of K
  TensorView ids;                      // [T] i32, each in [0, N)
  TensorView y;                        // [T K] f32, rows may be strided
  float scale = 1.0f;
};

extern const Op<GatherArgs> gather;

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_GATHER_GATHER_H_
