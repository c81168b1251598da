// Refusals of CUDA devices, each with its cause and what to do about it.
#include "device/cuda_support.h"

#include "base/check.h"

namespace ashlar {

namespace {

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

Status check_cuda(const CudaProbe& probe) {
  if (probe.driver_version == 0) {
    return fail(ErrorCode::kNotFound,
                "there is no NVIDIA driver on this machine (libcuda.so.1 is not found); install "
                "one for CUDA {} or newer, or use --device cpu",
                version_text(probe.runtime_version));
  }
  // Programs run on every driver that knows their major version.
  if (probe.driver_version / 1000 < probe.runtime_version / 1000) {
    return fail(ErrorCode::kUnsupported,
                "the NVIDIA driver is too old: it knows CUDA {}, and this program needs {}.0; "
                "install a newer driver, or use --device cpu",
                version_text(probe.driver_version), probe.runtime_version / 1000);
  }
  if (!probe.failure.empty()) {
    return fail(ErrorCode::kDevice,
                "the CUDA devices of this machine cannot be used: {}; `nvidia-smi` shows their "
                "state, --device cpu needs none",
                probe.failure);
  }
  if (probe.devices == 0) {
    return fail(ErrorCode::kNotFound,
                "there is no CUDA device on this machine, or CUDA_VISIBLE_DEVICES hides it; "
                "`nvidia-smi` lists them, --device cpu needs none");
  }
  if (probe.ordinal < 0 || probe.ordinal >= probe.devices) {
    return fail(ErrorCode::kNotFound, "there is no CUDA device {}: this machine has {}, from 0 on",
                probe.ordinal, probe.devices);
  }
  if (probe.major != 9 || probe.minor != 0) {
    return fail(ErrorCode::kUnsupported,
                "{} (sm_{}{}) is not supported: kernels here are for sm_90a (H100, H200); use "
                "--device cpu, or another device with --device cuda:N",
                probe.name, probe.major, probe.minor);
  }
  return {};
}

bool has_cuda_backend() { return make_cuda_device != nullptr; }

Result<std::unique_ptr<Device>> new_cuda_device(int ordinal) {
  CHECK_GE(ordinal, 0);
  if (!has_cuda_backend()) {
    return fail(ErrorCode::kUnsupported,
                "this program was built without the CUDA backend; `./do build cuda` makes one that "
                "has it (build/cuda/ashlar)");
  }
  return make_cuda_device(ordinal);
}

}  // namespace ashlar
