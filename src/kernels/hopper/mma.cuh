// The warp's matrix instruction, D[16 8] += A[16 16] * B[8 16]^T in bf16 with f32 sums, and the
// loads of its operands from shared memory. With g = lane / 4 and q = lane % 4: A holds rows g,
// g + 8, columns 2 q (+ 1), then both 8 columns on; B row g, columns 2 q (+ 1), then 8 on; D rows
// g, g, g + 8, g + 8, columns 2 q, 2 q + 1, 2 q, 2 q + 1. Source: PTX ISA 8.x, "mma.m16n8k16".
#ifndef ASHLAR_KERNELS_HOPPER_MMA_CUH_
#define ASHLAR_KERNELS_HOPPER_MMA_CUH_

#include <cstdint>

namespace ashlar::hopper {

__device__ __forceinline__ void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                            uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8 x 8 matrices of 16-bit numbers: lane l gives the address of row l % 8 of matrix l / 8, and
// gets of each matrix row l / 4, columns 2 (l % 4) (+ 1).
__device__ __forceinline__ void load_matrices(uint32_t (&v)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(address)
               : "memory");
}

}  // namespace ashlar::hopper

#endif  // ASHLAR_KERNELS_HOPPER_MMA_CUH_
