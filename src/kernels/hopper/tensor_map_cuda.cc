// Makes tensor maps through the driver's function, which is found at run time.
#include "kernels/hopper/tensor_map_cuda.h"

#include "base/check.h"
#include "device/launch_cuda.h"

namespace ashlar::hopper {

CUtensorMap box_map(Stream& stream, const char* op, TensorView matrix, int box_rows) {
  return box_map(stream, op, matrix, box_rows, 64);
}

CUtensorMap box_map(Stream& stream, const char* op, TensorView matrix, int box_rows,
                    int box_columns) {
  static const auto encode =
      driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  CHECK_EQ(dtype_bytes(matrix.dtype()), size_t{2});
  // The copy engine wants multiples of 16 bytes.
  CHECK(reinterpret_cast<uintptr_t>(matrix.data()) % 16 == 0 && matrix.row_stride() % 8 == 0);
  CUtensorMap map = {};
  if (encode == nullptr) {
    keep_failure(stream, cudaErrorNotSupported, "cuTensorMapEncodeTiled", op);
    return map;
  }
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(matrix.dim(1)),
                              static_cast<cuuint64_t>(matrix.dim(0))};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(matrix.row_stride()) * 2};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(box_columns),
                            static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[] = {1, 1};
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, matrix.data(), sizes, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE,
             box_columns == 32 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    keep_failure(stream, cudaErrorInvalidValue, "cuTensorMapEncodeTiled", op);
  }
  return map;
}

}  // namespace ashlar::hopper
