// gather_rows: y[r] = x[rows[r]]. A step computes logits for its output rows only, so the rows that
// the head needs are copied together first. Rows of an embedding are gathered by their weight
// instead, since those are packed.
#ifndef ASHLAR_KERNELS_GATHER_ROWS_GATHER_ROWS_H_
#define ASHLAR_KERNELS_GATHER_ROWS_GATHER_ROWS_H_

#include "kernels/op.h"

namespace ashlar {

struct GatherRowsArgs {
  TensorView x;     // [T D] f32, rows may be strided
  TensorView rows;  // [R] i32 in [0, T)
  TensorView y;     // [R D] f32; does not overlap x
};

extern const Op<GatherRowsArgs> gather_rows;

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_GATHER_ROWS_GATHER_ROWS_H_
