// Which device a verb runs on: the one reader of --device.
#ifndef ASHLAR_APPS_DEVICE_CHOICE_H_
#define ASHLAR_APPS_DEVICE_CHOICE_H_

#include <memory>
#include <string_view>

#include "base/error.h"
#include "device/device.h"
#include "run_options.h"

namespace ashlar {

struct DeviceChoice {
  enum class Kind { kAuto, kCpu, kCuda };
  Kind kind = Kind::kAuto;
  int ordinal = 0;  // of kCuda
};

// "auto", "cpu", "cuda", "cuda:3".
Result<DeviceChoice> parse_device_choice(std::string_view text);

// Opens what the options ask for. auto takes CUDA device 0 where there is one, else the CPU.
Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options);

}  // namespace ashlar

#endif  // ASHLAR_APPS_DEVICE_CHOICE_H_
