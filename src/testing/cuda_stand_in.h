// CudaStandIn: a device that says it is a CUDA device and is the CPU. What is decided by the
// backend when weights and models are loaded can be tested with it on any machine, since its
// streams are the CPU's: operations run their references. Operations without a reference in a GPU's
// types (norms, attention) do not run on it, so no model does.
#ifndef ASHLAR_TESTING_CUDA_STAND_IN_H_
#define ASHLAR_TESTING_CUDA_STAND_IN_H_

#include <memory>
#include <string>

#include "device/device.h"

namespace ashlar {

class CudaStandIn : public Device {
 public:
  Backend backend() const override { return Backend::kCuda; }
  std::string name() const override { return "cuda: none, the CPU stands in"; }
  Result<Buffer> allocate(size_t bytes) override { return cpu_->allocate(bytes); }
  std::unique_ptr<Stream> new_stream() override { return cpu_->new_stream(); }
  void copy(Stream& stream, void* to, const void* from, size_t bytes) override {
    cpu_->copy(stream, to, from, bytes);
  }
  void copy_rows(Stream& stream, void* to, size_t to_pitch, const void* from, size_t from_pitch,
                 size_t row_bytes, size_t rows) override {
    cpu_->copy_rows(stream, to, to_pitch, from, from_pitch, row_bytes, rows);
  }
  void clear(Stream& stream, void* data, size_t bytes) override {
    cpu_->clear(stream, data, bytes);
  }

 private:
  std::unique_ptr<Device> cpu_ = new_cpu_device(1);
};

}  // namespace ashlar

#endif  // ASHLAR_TESTING_CUDA_STAND_IN_H_
