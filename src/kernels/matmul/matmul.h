// matmul: y = epilogue(x W^T), x in f32, W packed rows that are decoded on the fly.
//
// The meaning of one output, the same at every number of rows, threads and instruction set: the
// decoded weights are the codec's truth exactly; element k goes to chain k mod 16, each chain is
// one f32 FMA chain in ascending k from zero (a last group of fewer than 16 counts as filled with
// zeros); the chains fold by adding neighbours, 16 to 8 to 4 to 2 to 1; then the epilogue. Only
// whole outputs are handed to threads.
#ifndef ASHLAR_KERNELS_MATMUL_MATMUL_H_
#define ASHLAR_KERNELS_MATMUL_MATMUL_H_

#include <span>

#include "kernels/matmul/epilogue.h"
#include "kernels/op.h"
#include "kernels/packed/packed_rows.h"

namespace ashlar {

constexpr int kMatmulChains = 16;

struct MatmulArgs {
  TensorView x;  // [M K] f32, rows may be strided
  std::span<const PackedRows>
      weight;    // N rows of K; with a gated epilogue first the N/2 gates, then the N/2 ups
  TensorView y;  // [M N] f32, or [M N/2] when gated; rows may be strided; apart from x
  Epilogue epilogue;
  TensorView scratch;  // [matmul_scratch_bytes(M, threads)] u8, 64-byte aligned
};

// Bytes of scratch that a call with M rows needs on a device with this many threads.
int64_t matmul_scratch_bytes(int64_t rows, int threads);

extern const Op<MatmulArgs> matmul;

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_MATMUL_MATMUL_H_
