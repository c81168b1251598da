// Sizes of what blocks take from the workspace, for the upper bounds that the memory plan adds up.
#ifndef ASHLAR_NN_WORKSPACE_SIZE_H_
#define ASHLAR_NN_WORKSPACE_SIZE_H_

#include <cstdint>

#include "base/align.h"

namespace ashlar {

// Bytes of one take() of [rows columns] f32, with its alignment.
inline int64_t f32_workspace_bytes(int64_t rows, int64_t columns) {
  return round_up(rows * columns * 4, 64);
}

}  // namespace ashlar

#endif  // ASHLAR_NN_WORKSPACE_SIZE_H_
