// Makes tensor maps through the driver's function, which is found at run time.
#include "kernels/hopper/tensor_map_cuda.h"

#include "base/check.h"
#include "device/launch_cuda.h"

namespace ashlar::hopper {

namespace {

// Sizes and box by dimension, the innermost first; strides in elements, of all but the innermost.
struct MapShape {
  int rank = 2;
  cuuint64_t sizes[4] = {1, 1, 1, 1};
  cuuint64_t strides[3] = {};
  cuuint32_t box[4] = {1, 1, 1, 1};
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
};

CUtensorMap encode_map(Stream& stream, const char* op, const void* data, MapShape shape) {
  static const auto encode =
      driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  CUtensorMap map = {};
  if (encode == nullptr) {
    keep_failure(stream, cudaErrorNotSupported, "cuTensorMapEncodeTiled", op);
    return map;
  }
  for (cuuint64_t& stride : shape.strides) stride *= 2;
  const cuuint32_t steps[] = {1, 1, 1, 1};
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, static_cast<cuuint32_t>(shape.rank),
             const_cast<void*>(data), shape.sizes, shape.strides, shape.box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, shape.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    keep_failure(stream, cudaErrorInvalidValue, "cuTensorMapEncodeTiled", op);
  }
  return map;
}

cuuint64_t size(int64_t value) { return static_cast<cuuint64_t>(value); }

}  // namespace

bool can_have_map(TensorView matrix) {
  return reinterpret_cast<uintptr_t>(matrix.data()) % 16 == 0 && matrix.row_stride() % 8 == 0;
}

CUtensorMap box_map(Stream& stream, const char* op, TensorView matrix, int box_rows) {
  return box_map(stream, op, matrix, box_rows, 64);
}

CUtensorMap box_map(Stream& stream, const char* op, TensorView matrix, int box_rows,
                    int box_columns) {
  CHECK_EQ(dtype_bytes(matrix.dtype()), size_t{2});
  CHECK(can_have_map(matrix));
  return encode_map(
      stream, op, matrix.data(),
      {.rank = 2,
       .sizes = {size(matrix.dim(1)), size(matrix.dim(0)), 1, 1},
       .strides = {size(matrix.row_stride()), 0, 0},
       .box = {static_cast<cuuint32_t>(box_columns), static_cast<cuuint32_t>(box_rows), 1, 1},
       .swizzle = box_columns == 32 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B});
}

CUtensorMap strip_map(Stream& stream, const char* op, const void* data, int64_t rows,
                      int64_t blocks, int64_t strips, int box_strips) {
  return encode_map(
      stream, op, data,
      {.rank = 4,
       .sizes = {64, size(rows), size(blocks), size(strips)},
       .strides = {64, size(rows * 64), size(rows * blocks * 64)},
       .box = {64, static_cast<cuuint32_t>(rows), 1, static_cast<cuuint32_t>(box_strips)}});
}

}  // namespace ashlar::hopper
