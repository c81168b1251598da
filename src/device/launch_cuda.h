// The one way a CUDA kernel is started: launch() sets stream, grid, cluster, shared memory and
// programmatic dependent launch, and keeps a failure in the stream, with the operation's name and
// shape, until somebody waits for the stream or one of its events.
//
// Dependent launch is always on: a kernel may begin while its predecessor still runs, so every
// kernel calls griddepcontrol.wait (kernels/hopper/dependent_launch.cuh) before it touches what
// another kernel writes or reads. Only files with a CUDA suffix include this header.
#ifndef ASHLAR_DEVICE_LAUNCH_CUDA_H_
#define ASHLAR_DEVICE_LAUNCH_CUDA_H_

#include <cuda_runtime.h>

#include <cstddef>

#include "device/device.h"

namespace ashlar {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;  // dynamic shared memory a CTA
  int cluster = 1;          // CTAs of a cluster, along x
};

// What host code needs to know of a device to choose a grid.
struct CudaTraits {
  int ordinal = 0;
  int multiprocessors = 0;
  size_t shared_bytes_per_block = 0;  // the most a CTA may opt in to
  size_t l2_bytes = 0;
};

// The streams of these are those of a CUDA device (CHECK).
cudaStream_t cuda_stream(Stream& stream);
const CudaTraits& cuda_traits(Stream& stream);

// Keeps a failed call of the CUDA runtime in the stream, as launch() does; cudaSuccess is ignored.
// `call` and `op` are literals: they are kept as pointers.
void keep_failure(Stream& stream, cudaError_t error, const char* call, const char* op);

// A driver function, found without linking the driver's library: null when there is none of that
// name. Function is its pointer type, of the version that CUDA 12.0 had.
void* find_driver_function(const char* name);
template <class Function>
Function driver_function(const char* name) {
  return reinterpret_cast<Function>(find_driver_function(name));
}

namespace launch_detail {
void launch_kernel(Stream& stream, const char* op, const void* kernel, const LaunchShape& shape,
                   void** arguments);
}  // namespace launch_detail

// Starts a kernel in stream order. Never waits, never fails visibly: see above. `op` is a literal.
// An empty grid is not launched.
template <class... Parameters, class... Arguments>
void launch(Stream& stream, const char* op, void (*kernel)(Parameters...), const LaunchShape& shape,
            Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments), "one argument for each parameter");
  // The copies have the kernel's own parameter types, whatever the caller passed.
  [&](Parameters... values) {
    void* pointers[] = {static_cast<void*>(&values)..., nullptr};
    launch_detail::launch_kernel(stream, op, reinterpret_cast<const void*>(kernel), shape,
                                 pointers);
  }(static_cast<Arguments&&>(arguments)...);
}

}  // namespace ashlar

#endif  // ASHLAR_DEVICE_LAUNCH_CUDA_H_
