// Whether a CUDA device can be used, as a decision apart from the CUDA runtime: the probe is filled
// by device_cuda.cc, and every refusal can be tested on a machine that has none of it.
#ifndef ASHLAR_DEVICE_CUDA_SUPPORT_H_
#define ASHLAR_DEVICE_CUDA_SUPPORT_H_

#include <memory>
#include <string>

#include "base/error.h"
#include "device/device.h"

namespace ashlar {

// What was found out about a device, as far as the looking got. Versions are CUDA's: 13000 is 13.0.
struct CudaProbe {
  int ordinal = 0;
  int runtime_version = 0;  // what this program was built with
  int driver_version = 0;   // the newest that the driver knows; 0: there is no driver
  int devices = 0;
  std::string failure;  // what the runtime said when it could not tell; empty: nothing
  std::string name;     // of the device
  int major = 0;        // its compute capability
  int minor = 0;
};

Status check_cuda(const CudaProbe& probe);

// Of device_cuda.cc; its address is null in a build without CUDA.
[[gnu::weak]] Result<std::unique_ptr<Device>> make_cuda_device(int ordinal);

}  // namespace ashlar

#endif  // ASHLAR_DEVICE_CUDA_SUPPORT_H_
