// The shape of the pages of one attending layer: what the cache allocates and attention reads.
#ifndef ASHLAR_NN_PAGED_SHAPE_H_
#define ASHLAR_NN_PAGED_SHAPE_H_

#include <cstdint>

#include "device/device.h"
#include "tensor/dtype.h"

namespace ashlar {

// Pages of PagedState i are a tensor [pages 2*G B K] of this type; layout inside a page in
// kernels/kv_pages.h, on CUDA kernels/kv_pages_cuda.cuh.
struct PagedShape {
  DType type = DType::kF16;
  int64_t heads = 0;      // G
  int64_t head_size = 0;  // K
};

// Of keys and values, where nobody asks for another.
constexpr DType default_kv_type(Backend backend) {
  return backend == Backend::kCpu ? DType::kF16 : DType::kBF16;
}

}  // namespace ashlar

#endif  // ASHLAR_NN_PAGED_SHAPE_H_
