// Where a key or a value lies in the paged cache on CUDA devices: the one place that knows the
// layout of a page there.
//
// A layer's pages are [pages 2G B K]: for each page G heads of keys, then G heads of values, B
// positions of K numbers each, keys and values alike as rows [B K]. (kernels/kv_pages.h has the
// CPU's, where keys are transposed.) A head's page is one contiguous run of B * K numbers, which is
// what a bulk copy or a tensor map wants, and a position is stored as one run of K.
#ifndef ASHLAR_KERNELS_KV_PAGES_CUDA_CUH_
#define ASHLAR_KERNELS_KV_PAGES_CUDA_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace ashlar {

// T is float, __half or __nv_bfloat16.
template <class T>
struct CudaKvPages {
  T* data;
  int32_t heads;      // G
  int32_t positions;  // B
  int32_t size;       // K

  // [B K] each.
  __host__ __device__ __forceinline__ T* keys(int64_t page, int32_t head) const {
    return data + (page * 2 * heads + head) * positions * size;
  }
  __host__ __device__ __forceinline__ T* values(int64_t page, int32_t head) const {
    return keys(page, heads + head);
  }
};

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_KV_PAGES_CUDA_CUH_
