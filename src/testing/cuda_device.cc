// Opens the device at the first use.
#include "testing/cuda_device.h"

#include "base/check.h"

namespace ashlar {

// Never destroyed: buffers of other static objects may be freed after it would be.
const Result<std::unique_ptr<Device>>& test_cuda_device() {
  static const auto* device = new Result<std::unique_ptr<Device>>(new_cuda_device(0));
  return *device;
}

Device& cuda_device() {
  CHECK(test_cuda_device().has_value());
  return **test_cuda_device();
}

}  // namespace ashlar
