// The CPU cell of matmul and how it cuts the work; callers use the op in matmul.h.
//
// A part is a panel of weight rows against all rows of x. Panels are decoded a run of k at a time
// into the thread's scratch, so each weight is decoded once for a block of rows; sums wait in
// scratch as 16 chains between runs. None of these sizes is part of the numeric definition: chains
// are only ever extended in ascending k.
#ifndef ASHLAR_KERNELS_MATMUL_MATMUL_CPU_H_
#define ASHLAR_KERNELS_MATMUL_MATMUL_CPU_H_

#include "kernels/matmul/matmul.h"

namespace ashlar {

struct MatmulTiling {
  int64_t panel;  // weight rows decoded together, a multiple of 16; gated: half gates, half ups
  int64_t run;    // inputs decoded together, a multiple of kLargestBlock
  int64_t rows;   // rows of x whose chains are kept at once
};

// Few rows: what is decoded stays in the first-level cache (16 x 512 x 4 = 32 KiB). Many: decoded
// weights, chains and a block of x share the second level (128 KiB + 384 KiB + 768 KiB), and a
// weight is decoded once for 192 rows.
constexpr int64_t kFewRows = 8;
constexpr MatmulTiling matmul_tiling(int64_t rows) {
  return rows <= kFewRows ? MatmulTiling{16, 512, kFewRows} : MatmulTiling{32, 1024, 192};
}

// What the inner kernel works on: a decoded panel times some rows of x, over one run of k.
struct MatmulBlock {
  const float* weights;   // [panel weight_stride], zeros from k to the next multiple of 16
  int64_t weight_stride;  // floats
  const float* x;         // [rows x_stride]
  int64_t x_stride;
  float* chains;  // [rows panel 16]
  int64_t panel;
  int64_t k;
  bool first;  // chains start from zero
};

void matmul_cpu(Stream& stream, const MatmulArgs& args);

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_MATMUL_MATMUL_CPU_H_
