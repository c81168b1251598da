// Barriers in shared memory (PTX mbarrier), of a cluster and of some threads of a CTA: what keeps
// the copy engine and the warps apart. Waiting for earlier kernels is in dependent_launch.cuh.
//
// A wait takes the parity of the phase it waits for; a fresh barrier is in phase 0, so waiting for
// parity 1 returns at once. Source: PTX ISA 8.x, "mbarrier".
#ifndef ASHLAR_KERNELS_HOPPER_BARRIER_CUH_
#define ASHLAR_KERNELS_HOPPER_BARRIER_CUH_

#include <cstdint>

namespace ashlar::hopper {

using Barrier = uint64_t;  // in shared memory, 8-byte aligned

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(Barrier* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}

// After the inits, before any other thread, the copy engine or another CTA uses the barriers.
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

// Arrives once and announces bytes that the copy engine will write.
__device__ __forceinline__ void barrier_expect(Barrier* barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

// The barrier at the same place in CTA `rank` of the cluster.
__device__ __forceinline__ uint32_t cluster_address(const void* pointer, uint32_t rank) {
  uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(shared_address(pointer)), "r"(rank));
  return address;
}

// Arrives at the barrier of CTA `rank`, for stages that the copy engine writes: what this thread
// stored is not released (that costs a memory barrier, and the matrix instructions only read).
__device__ __forceinline__ void barrier_arrive_at(Barrier* barrier, uint32_t rank) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(cluster_address(barrier, rank))
               : "memory");
}

__device__ __forceinline__ void barrier_wait(Barrier* barrier, uint32_t parity) {
  const uint32_t address = shared_address(barrier);
  uint32_t done;
  do {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(address), "r"(parity)
        : "memory");
  } while (done == 0);
}

// All threads of the cluster.
__device__ __forceinline__ void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}

// `threads` threads of a CTA meet; id 1 to 15 (0 is __syncthreads).
__device__ __forceinline__ void named_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace ashlar::hopper

#endif  // ASHLAR_KERNELS_HOPPER_BARRIER_CUH_
