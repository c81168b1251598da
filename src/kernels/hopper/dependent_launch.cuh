// Programmatic dependent launch: a kernel may start while its predecessor in the stream still runs.
//
// Every kernel calls wait_for_predecessor() in each thread that touches anything another kernel
// wrote, or writes anything another kernel reads; from there on all earlier kernels are complete
// and visible. let_successor_start() only lets the next kernel's CTAs take free places early.
// Source: PTX ISA 8.x, "griddepcontrol".
#ifndef ASHLAR_KERNELS_HOPPER_DEPENDENT_LAUNCH_CUH_
#define ASHLAR_KERNELS_HOPPER_DEPENDENT_LAUNCH_CUH_

namespace ashlar {

__device__ __forceinline__ void wait_for_predecessor() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

__device__ __forceinline__ void let_successor_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_HOPPER_DEPENDENT_LAUNCH_CUH_
