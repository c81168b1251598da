// Copies by the copy engine: runs of bytes into shared memory, and boxes of a tensor that a tensor
// map describes in both directions. What comes in completes on a barrier that expects its bytes.
//
// Addresses and sizes are multiples of 16 bytes; a box lands at a multiple of 1,024 bytes when its
// map swizzles by 128. Source: PTX ISA 8.x, "cp.async.bulk".
#ifndef ASHLAR_KERNELS_HOPPER_COPY_CUH_
#define ASHLAR_KERNELS_HOPPER_COPY_CUH_

#include <cuda.h>

#include "kernels/hopper/barrier.cuh"

namespace ashlar::hopper {

// Weights stream through L2 once: they should leave it before activations do.
constexpr uint64_t kEvictFirst = 0x12F0000000000000;
constexpr uint64_t kEvictLast = 0x14F0000000000000;

__device__ __forceinline__ void copy_bytes(void* to, const void* from, uint32_t bytes,
                                           Barrier* barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}

// The box at column x and row y of a matrix.
__device__ __forceinline__ void copy_box(void* to, const CUtensorMap* map, int32_t x, int32_t y,
                                         Barrier* barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "l"(policy)
      : "memory");
}

// The same, into the same place of every CTA whose bit is set in `ctas`; each CTA's own barrier
// gets the bytes.
__device__ __forceinline__ void copy_box_multicast(void* to, const CUtensorMap* map, int32_t x,
                                                   int32_t y, Barrier* barrier, uint16_t ctas,
                                                   uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5, %6;" ::"r"(
          shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "h"(ctas), "l"(policy)
      : "memory");
}

// The other way: a box of shared memory into the matrix; what would lie outside it is left out. The
// writing threads call store_fence() and meet before one of them sends the box.
__device__ __forceinline__ void store_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void store_box(const CUtensorMap* map, int32_t x, int32_t y,
                                          const void* from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];\n"
      "cp.async.bulk.commit_group;" ::"l"(map),
      "r"(shared_address(from)), "r"(x), "r"(y)
      : "memory");
}
// Until this thread's boxes have left shared memory.
__device__ __forceinline__ void stores_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
// Until they are in the matrix.
__device__ __forceinline__ void stores_done() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

}  // namespace ashlar::hopper

#endif  // ASHLAR_KERNELS_HOPPER_COPY_CUH_
