// fill_synthetic: elements of a synthetic tensor (tensor/synthetic_values.h), made where they are
// wanted. On a GPU a model of 16 GB is there in a fraction of a second, without host memory.
//
// Element i of y is element first + i of the tensor, with the bits that every backend gives it.
#ifndef ASHLAR_KERNELS_FILL_SYNTHETIC_FILL_SYNTHETIC_H_
#define ASHLAR_KERNELS_FILL_SYNTHETIC_FILL_SYNTHETIC_H_

#include "kernels/op.h"
#include "tensor/synthetic_values.h"

namespace ashlar {

struct FillSyntheticArgs {
  SyntheticValues values;
  int64_t first = 0;  // element of the whole tensor, row-major
  TensorView y;       // bf16, contiguous, written
};

extern const Op<FillSyntheticArgs> fill_synthetic;

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_FILL_SYNTHETIC_FILL_SYNTHETIC_H_
