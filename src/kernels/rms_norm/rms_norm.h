// rms_norm: y[t d] = x[t d] / rms(x[t]) * weight[d], one row at a time (Zhang and Sennrich 2019).
//
// With add_to_output the value is added to y: Gemma norms what a block gives before it enters the
// residual stream, and the fusion saves a pass over it. Families that store weight - 1 add the one
// when they load, so no offset appears here. Computed in f32; each of the two products rounds once,
// in the order written. Where a backend's activations are bf16 (CUDA), the second product is
// rounded to it as well.
#ifndef ASHLAR_KERNELS_RMS_NORM_RMS_NORM_H_
#define ASHLAR_KERNELS_RMS_NORM_RMS_NORM_H_

#include "kernels/op.h"

namespace ashlar {

struct RmsNormArgs {
  TensorView x;       // [T D] f32, rows may be strided
  TensorView weight;  // [D] f32
  TensorView y;  // [T D] f32, rows may be strided; may be x itself unless add_to_output. On CUDA
                 // also bf16, unless add_to_output
  float eps = 0.0f;
  bool add_to_output = false;
};

extern const Op<RmsNormArgs> rms_norm;

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_RMS_NORM_RMS_NORM_H_
