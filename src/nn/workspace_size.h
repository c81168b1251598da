// Sizes of what blocks take from the workspace, for the upper bounds that the memory plan adds up.
#ifndef ASHLAR_NN_WORKSPACE_SIZE_H_
#define ASHLAR_NN_WORKSPACE_SIZE_H_

#include <cstdint>

#include "base/align.h"
#include "tensor/dtype.h"

namespace ashlar {

// Bytes of one take() of [rows columns], with its alignment.
inline int64_t workspace_bytes_of(DType type, int64_t rows, int64_t columns) {
  return round_up(rows * columns * static_cast<int64_t>(dtype_bytes(type)), 64);
}
inline int64_t f32_workspace_bytes(int64_t rows, int64_t columns) {
  return workspace_bytes_of(DType::kF32, rows, columns);
}

}  // namespace ashlar

#endif  // ASHLAR_NN_WORKSPACE_SIZE_H_
