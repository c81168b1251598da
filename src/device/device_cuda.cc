// The CUDA device: memory, copies and what can be found out about it. Its streams and events, and
// the launch of kernels, are in stream_cuda.cc.
#include "base/check.h"
#include "device/cuda_support.h"
#include "device/stream_cuda.h"

namespace ashlar {

namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

void free_on_device(void* data, size_t) {
  if (cudaFree(data) != cudaSuccess) cudaGetLastError();  // a dead device has nothing to free
}

void free_pinned(void* data, size_t) {
  if (cudaFreeHost(data) != cudaSuccess) cudaGetLastError();
}

std::string text_of(cudaError_t error) {
  return fmt::format("{} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
}

class CudaDevice : public Device {
 public:
  CudaDevice(CudaTraits traits, std::string model, size_t total_bytes)
      : traits_(traits), model_(std::move(model)), total_bytes_(total_bytes) {}

  Backend backend() const override { return Backend::kCuda; }
  std::string name() const override {
    return fmt::format("cuda: {}, {} GiB", model_, total_bytes_ >> 30);
  }

  Result<Buffer> allocate(size_t bytes) override {
    void* data = nullptr;
    cudaError_t error = use_cuda_device(traits_.ordinal);
    if (error == cudaSuccess) error = cudaMalloc(&data, std::max(bytes, size_t{1}));
    if (error == cudaSuccess) return Buffer(data, bytes, free_on_device);
    cudaGetLastError();
    if (error != cudaErrorMemoryAllocation) {
      return fail(ErrorCode::kDevice, "cudaMalloc of {} bytes on {}: {}", bytes, model_,
                  text_of(error));
    }
    const DeviceMemory now = memory();
    return fail(
        ErrorCode::kResourceExhausted,
        "out of memory: {} bytes ({:.2f} GiB) could not be allocated on cuda:{} ({}), where "
        "{:.2f} of {:.2f} GiB are free; end other programs on it (`nvidia-smi` lists them) "
        "or ask for less",
        bytes, static_cast<double>(bytes) / kGiB, traits_.ordinal, model_,
        static_cast<double>(now.free_bytes) / kGiB, static_cast<double>(now.total_bytes) / kGiB);
  }

  Result<Buffer> allocate_host(size_t bytes) override {
    void* data = nullptr;
    cudaError_t error = use_cuda_device(traits_.ordinal);
    if (error == cudaSuccess) {
      error = cudaHostAlloc(&data, std::max(bytes, size_t{1}), cudaHostAllocPortable);
    }
    if (error == cudaSuccess) return Buffer(data, bytes, free_pinned);
    cudaGetLastError();
    const ErrorCode code =
        error == cudaErrorMemoryAllocation ? ErrorCode::kResourceExhausted : ErrorCode::kDevice;
    return fail(code, "cudaHostAlloc: {} bytes of pinned host memory could not be allocated: {}",
                bytes, text_of(error));
  }

  DeviceMemory memory() const override {
    DeviceMemory memory{total_bytes_, 0};
    if (use_cuda_device(traits_.ordinal) != cudaSuccess ||
        cudaMemGetInfo(&memory.free_bytes, &memory.total_bytes) != cudaSuccess) {
      cudaGetLastError();
    }
    return memory;
  }

  std::unique_ptr<Stream> new_stream() override { return new_cuda_stream(*this, traits_); }

  void copy(Stream& stream, void* to, const void* from, size_t bytes) override {
    CHECK(&stream.device() == this);
    copy_on_cuda(stream, to, from, bytes);
  }
  void copy_rows(Stream& stream, void* to, size_t to_pitch, const void* from, size_t from_pitch,
                 size_t row_bytes, size_t rows) override {
    CHECK(&stream.device() == this);
    copy_rows_on_cuda(stream, to, to_pitch, from, from_pitch, row_bytes, rows);
  }
  void clear(Stream& stream, void* data, size_t bytes) override {
    CHECK(&stream.device() == this);
    clear_on_cuda(stream, data, bytes);
  }

 private:
  CudaTraits traits_;
  std::string model_;
  size_t total_bytes_;
};

// Fills what it can find out, in the order in which check_cuda() asks.
CudaProbe look_at(int ordinal, cudaDeviceProp& properties) {
  CudaProbe probe;
  probe.ordinal = ordinal;
  probe.runtime_version = CUDART_VERSION;
  if (cudaDriverGetVersion(&probe.driver_version) != cudaSuccess) probe.driver_version = 0;
  cudaError_t error = cudaGetDeviceCount(&probe.devices);
  if (error == cudaErrorNoDevice) {
    probe.devices = 0;
    error = cudaSuccess;
  }
  if (error == cudaSuccess && ordinal < probe.devices) {
    error = cudaGetDeviceProperties(&properties, ordinal);
    probe.name = properties.name;
    probe.major = properties.major;
    probe.minor = properties.minor;
  }
  if (error != cudaSuccess) probe.failure = text_of(error);
  cudaGetLastError();
  return probe;
}

}  // namespace

Result<std::unique_ptr<Device>> make_cuda_device(int ordinal) {
  cudaDeviceProp properties = {};
  ASHLAR_TRY(check_cuda(look_at(ordinal, properties)));
  if (const cudaError_t error = use_cuda_device(ordinal); error != cudaSuccess) {
    cudaGetLastError();
    return fail(
        ErrorCode::kDevice,
        "cudaSetDevice: cuda:{} ({}) could not be started: {}; `nvidia-smi` shows what uses "
        "it",
        ordinal, properties.name, text_of(error));
  }
  CudaTraits traits;
  traits.ordinal = ordinal;
  traits.multiprocessors = properties.multiProcessorCount;
  traits.shared_bytes_per_block = properties.sharedMemPerBlockOptin;
  traits.l2_bytes = static_cast<size_t>(properties.l2CacheSize);
  return std::make_unique<CudaDevice>(traits, properties.name, properties.totalGlobalMem);
}

}  // namespace ashlar
