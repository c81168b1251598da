// panel_matmul: y = epilogue(x W^T), x in f32, W in panels of integers (kernels/panels/panels.h).
//
// The meaning of one output, the same bits at every number of rows, threads and instruction set:
// 1. A row of x is cut into blocks of 32 k. A block becomes integers q[k] = rint(x[k] * (32512 /
// a)), a the largest
//    magnitude in it, with the scale s = a / 32512: about 15 bits and a sign. Blocks with a <
//    2^-100 are zero, with an infinity or a NaN they make the row's outputs NaN.
// 2. A block, or where scales cover 16 k each half of it in turn, adds to the f32 sum, in ascending
// k from zero:
//      sum = FMA(f32(P) * s, scale, sum);   P = sum of q[k] * code[k], an exact int32
//      sum = FMA(f32(Q) * s, offset, sum);  Q = sum of q[k], exact
//    with the products by s rounded, and scale and offset of the weight's block.
// 3. The epilogue.
// Integers are exact, so it does not matter in which order an instruction adds them: that is why
// VNNI, AMX and AVX2 agree. q is held as two int8 planes, q = 256 high + low, so that it meets the
// codes in int8 instructions. Compared (docs/numerics.md): one int8 plane misses the parity line,
// two bf16 terms are as exact but need the same number of instructions at half the rate, plus a
// conversion of the weights.
#ifndef ASHLAR_KERNELS_PANEL_MATMUL_PANEL_MATMUL_H_
#define ASHLAR_KERNELS_PANEL_MATMUL_PANEL_MATMUL_H_

#include <span>

#include "kernels/matmul/epilogue.h"
#include "kernels/op.h"
#include "kernels/panels/panels.h"

namespace ashlar {

struct PanelMatmulArgs {
  TensorView x;  // [M K] f32, rows may be strided
  // N rows of K, part after part. With a gated epilogue first the N/2 gates, then the N/2 ups, in
  // parts of the same sizes, or all in one part with N/2 a multiple of 16: panel i of one belongs
  // to panel i of the other.
  std::span<const PanelMatrix> weight;
  TensorView y;  // [M N] f32, or [M N/2] when gated; rows may be strided; apart from x
  Epilogue epilogue;
  TensorView scratch;  // [panel_matmul_scratch_bytes(M, K)] u8, 64-byte aligned
};

int64_t panel_matmul_scratch_bytes(int64_t rows, int64_t inputs);

extern const Op<PanelMatmulArgs> panel_matmul;

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_PANEL_MATMUL_PANEL_MATMUL_H_
