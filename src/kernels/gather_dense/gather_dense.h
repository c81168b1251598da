// gather_dense: y[t] = W[ids[t]] * scale, rows of a matrix of plain numbers as f32: the embedding
// of tokens where the weight is a tensor in device memory. kernels/gather does the same for packed
// rows on the host. Widening is exact, the product rounds once; a scale of 1 changes nothing.
#ifndef ASHLAR_KERNELS_GATHER_DENSE_GATHER_DENSE_H_
#define ASHLAR_KERNELS_GATHER_DENSE_GATHER_DENSE_H_

#include "kernels/op.h"

namespace ashlar {

struct GatherDenseArgs {
  TensorView weight;  // [N K] f32, f16 or bf16, rows may be strided
  TensorView ids;     // [T] i32, each in [0, N)
  TensorView y;       // [T K] f32, rows may be strided
  float scale = 1.0f;
};

extern const Op<GatherDenseArgs> gather_dense;

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_GATHER_DENSE_GATHER_DENSE_H_
