// Reads --device and opens the device. A device that was asked for by name is taken or refused with
// the reason, never replaced by another.
#include "device_choice.h"

#include <charconv>

#include "device/cores.h"

namespace ashlar {

namespace {

Result<std::unique_ptr<Device>> open_cpu(const DeviceOptions& options) {
  if (options.threads > usable_cores()) {
    return fail(ErrorCode::kInvalidArgument,
                "--threads: {} is more than the {} cores that this process may use",
                options.threads, usable_cores());
  }
  return new_cpu_device(static_cast<int>(options.threads));
}

Result<std::unique_ptr<Device>> open_cuda(const DeviceOptions& options, int ordinal) {
  if (has_cuda_backend() && options.threads != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "--threads: {} changes nothing on a CUDA device; leave it out, or use --device cpu",
                options.threads);
  }
  auto device = new_cuda_device(ordinal);
  if (!device) return fail_in(fmt::format("--device {}", options.device), device.error());
  return device;
}

}  // namespace

Result<DeviceChoice> parse_device_choice(std::string_view text) {
  using Kind = DeviceChoice::Kind;
  if (text == "auto") return DeviceChoice{Kind::kAuto};
  if (text == "cpu") return DeviceChoice{Kind::kCpu};
  if (text == "cuda") return DeviceChoice{Kind::kCuda};
  constexpr std::string_view kPrefix = "cuda:";
  if (text.starts_with(kPrefix)) {
    const std::string_view number = text.substr(kPrefix.size());
    DeviceChoice choice{Kind::kCuda};
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), choice.ordinal);
    if (error == std::errc() && end == number.data() + number.size() && choice.ordinal >= 0) {
      return choice;
    }
  }
  return fail(ErrorCode::kInvalidArgument,
              "--device: '{}' is none of auto, cpu, cuda and cuda:N (N from 0)", text);
}

Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options) {
  ASHLAR_ASSIGN(const DeviceChoice choice, parse_device_choice(options.device));
  switch (choice.kind) {
    case DeviceChoice::Kind::kCpu:
      return open_cpu(options);
    case DeviceChoice::Kind::kCuda:
      return open_cuda(options, choice.ordinal);
    case DeviceChoice::Kind::kAuto:
      break;
  }
  // --threads asks for the CPU as clearly as --device cpu does.
  if (has_cuda_backend() && options.threads == 0) {
    if (auto device = new_cuda_device(0)) return device;
  }
  return open_cpu(options);
}

}  // namespace ashlar
