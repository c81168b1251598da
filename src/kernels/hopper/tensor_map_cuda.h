// Tensor maps: what the copy engine is told of a matrix, made on the host for each launch (about a
// third of a microsecond) and passed by value as a __grid_constant__ parameter.
#ifndef ASHLAR_KERNELS_HOPPER_TENSOR_MAP_CUDA_H_
#define ASHLAR_KERNELS_HOPPER_TENSOR_MAP_CUDA_H_

#include <cuda.h>

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace ashlar::hopper {

// Of a matrix of 16-bit numbers [rows columns] whose rows begin at multiples of 16 bytes: boxes of
// `box_rows` x 64 columns, swizzled by 128 bytes. What lies outside the matrix reads as zero. A
// failure is kept in the stream under `op`.
CUtensorMap box_map(Stream& stream, const char* op, TensorView matrix, int box_rows);

// The same with boxes of 32 or 64 columns (swizzled by 64 or 128 bytes).
CUtensorMap box_map(Stream& stream, const char* op, TensorView matrix, int box_rows,
                    int box_columns);

}  // namespace ashlar::hopper

#endif  // ASHLAR_KERNELS_HOPPER_TENSOR_MAP_CUDA_H_
