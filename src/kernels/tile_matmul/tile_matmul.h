// tile_matmul: y = epilogue(x W^T) on the tensor cores: x in bf16, W in the layout of
// tile_layout.h.
//
// The meaning of one output, the same at every number of rows and in every kernel: each segment is
// one chain of matrix instructions (bf16 products, f32 sums, 16 inputs an instruction, ascending)
// from zero; the output is segment 0, plus segment 1, ... in f32; then the epilogue, and one
// rounding to the type of y. The instruction's own order of additions is the hardware's: its bits
// hold on one model of GPU, and the reference agrees with them within a tolerance.
#ifndef ASHLAR_KERNELS_TILE_MATMUL_TILE_MATMUL_H_
#define ASHLAR_KERNELS_TILE_MATMUL_TILE_MATMUL_H_

#include <string>

#include "kernels/matmul/epilogue.h"
#include "kernels/op.h"
#include "kernels/tile_matmul/tile_layout.h"

namespace ashlar {

struct TileWeight {
  TileShape shape;
  TensorView data;  // [shape.bf16_bytes()] u8, at a multiple of 1,024 bytes
};

// The weight is read while earlier kernels of the stream may still run (those that let their
// successor start): only tile_pack and tile_clear may write it in the same stream.
struct TileMatmulArgs {
  TensorView x;  // [M K] bf16, rows at multiples of 16 bytes
  TileWeight weight;
  // [M N] bf16 (rows at multiples of 16 bytes) or f32; [M N/2] bf16 when gated. f32 when the
  // epilogue adds to it or masks. Apart from x.
  TensorView y;
  Epilogue epilogue = {};
  TensorView scratch = {};  // [tile_matmul_scratch_bytes()] u8, 64-byte aligned; empty when 0
};

// Bytes for the sums of segments that CTAs hand each other: more for more rows up to some hundred,
// and not more from there on. Calls on one device must be in one stream: they share counters.
int64_t tile_matmul_scratch_bytes(const TileShape& shape, int64_t rows);

extern const Op<TileMatmulArgs> tile_matmul;

struct TilePackArgs {
  TensorView rows;  // [count K] f32, rounded to bf16 here, or bf16: outputs first ... of the weight
  int64_t first = 0;
  TileWeight weight;  // whose data is written; what nobody writes must be zero, see tile_clear
};

// Puts rows of a plain matrix where tile_matmul wants them.
extern const Op<TilePackArgs> tile_pack;

struct TileClearArgs {
  TileWeight weight;
};
extern const Op<TileClearArgs> tile_clear;

// Which kernel a number of rows takes, for tests and reports: "split rows 8", "many rows 128".
std::string tile_matmul_kernel(const TileShape& shape, int64_t rows);

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_TILE_MATMUL_TILE_MATMUL_H_
