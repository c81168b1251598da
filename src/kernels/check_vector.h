// check_vector: a line of the contracts of operations that take index arrays, which are vectors of
// i32 whose length another argument states. What the indices point to is not looked at: on a GPU
// the host cannot read them.
#ifndef ASHLAR_KERNELS_CHECK_VECTOR_H_
#define ASHLAR_KERNELS_CHECK_VECTOR_H_

#include "kernels/op.h"

namespace ashlar {

inline void check_vector(const ShapeCheck& check, const TensorView& view, int64_t count,
                         const char* name) {
  check.shape(view, {count}, name);
  check.dtype(view, DType::kI32, name);
}

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_CHECK_VECTOR_H_
