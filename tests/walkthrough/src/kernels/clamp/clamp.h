// clamp: x = min(max(x, -limit), limit), in place. The walkthrough's operation: a contract, a cost,
// a reference and nothing else; a faster cell would be one more file.
#ifndef ASHLAR_KERNELS_CLAMP_CLAMP_H_
#define ASHLAR_KERNELS_CLAMP_CLAMP_H_

#include "kernels/op.h"

namespace ashlar {

struct ClampArgs {
  TensorView x;  // [T D] f32
  float limit = 0;
};

extern const Op<ClampArgs> clamp;

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_CLAMP_CLAMP_H_
