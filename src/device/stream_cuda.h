// Streams and events of a CUDA device, for device_cuda.cc.
#ifndef ASHLAR_DEVICE_STREAM_CUDA_H_
#define ASHLAR_DEVICE_STREAM_CUDA_H_

#include <memory>

#include "device/launch_cuda.h"

namespace ashlar {

// Makes the device current on this thread; free when it is already.
cudaError_t use_cuda_device(int ordinal);

std::unique_ptr<Stream> new_cuda_stream(Device& device, const CudaTraits& traits);
void copy_on_cuda(Stream& stream, void* to, const void* from, size_t bytes);
void copy_rows_on_cuda(Stream& stream, void* to, size_t to_pitch, const void* from,
                       size_t from_pitch, size_t row_bytes, size_t rows);
void clear_on_cuda(Stream& stream, void* data, size_t bytes);

}  // namespace ashlar

#endif  // ASHLAR_DEVICE_STREAM_CUDA_H_
