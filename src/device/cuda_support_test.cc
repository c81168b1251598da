// Every refusal of a CUDA device says what is wrong and what to do, and none is missing.
#include "device/cuda_support.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

CudaProbe h200() {
  CudaProbe probe;
  probe.runtime_version = 13000;
  probe.driver_version = 13000;
  probe.devices = 2;
  probe.name = "NVIDIA H200";
  probe.major = 9;
  return probe;
}

void expect_refused(const CudaProbe& probe, ErrorCode code,
                    std::initializer_list<const char*> texts) {
  const Status status = check_cuda(probe);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, code);
  for (const char* text : texts) {
    EXPECT_NE(status.error().message.find(text), std::string::npos) << status.error().message;
  }
}

TEST(CudaSupport, AHopperDeviceIsTaken) {
  EXPECT_TRUE(check_cuda(h200()));
  CudaProbe second = h200();
  second.ordinal = 1;
  EXPECT_TRUE(check_cuda(second));
  CudaProbe newer = h200();
  newer.driver_version = 14010;
  EXPECT_TRUE(check_cuda(newer));
}

// An older driver of the same major version runs the program.
TEST(CudaSupport, AnOlderMinorVersionOfTheDriverIsTaken) {
  CudaProbe probe = h200();
  probe.runtime_version = 13020;
  EXPECT_TRUE(check_cuda(probe));
}

TEST(CudaSupport, NoDriver) {
  CudaProbe probe = h200();
  probe.driver_version = 0;
  probe.failure = "CUDA driver version is insufficient";  // what the runtime says then as well
  expect_refused(probe, ErrorCode::kNotFound, {"no NVIDIA driver", "CUDA 13.0", "--device cpu"});
}

TEST(CudaSupport, AnOldDriver) {
  CudaProbe probe = h200();
  probe.driver_version = 12080;
  probe.failure = "CUDA driver version is insufficient";
  expect_refused(probe, ErrorCode::kUnsupported, {"too old", "12.8", "13.0", "newer driver"});
}

TEST(CudaSupport, ADriverThatDoesNotAnswer) {
  CudaProbe probe = h200();
  probe.failure = "system not yet initialized (cudaErrorSystemNotReady)";
  expect_refused(probe, ErrorCode::kDevice, {"cudaErrorSystemNotReady", "nvidia-smi"});
}

TEST(CudaSupport, NoDevice) {
  CudaProbe probe = h200();
  probe.devices = 0;
  expect_refused(probe, ErrorCode::kNotFound, {"no CUDA device", "CUDA_VISIBLE_DEVICES"});
}

TEST(CudaSupport, ADeviceThatIsNotThere) {
  CudaProbe probe = h200();
  probe.ordinal = 2;
  expect_refused(probe, ErrorCode::kNotFound, {"no CUDA device 2", "has 2"});
}

TEST(CudaSupport, ADeviceOfAnotherArchitecture) {
  CudaProbe probe = h200();
  probe.name = "NVIDIA A100";
  probe.major = 8;
  expect_refused(probe, ErrorCode::kUnsupported,
                 {"NVIDIA A100 (sm_80) is not supported: kernels here are for sm_90a"});
  probe.major = 10;
  expect_refused(probe, ErrorCode::kUnsupported, {"(sm_100)"});
}

// A build with CUDA says something else, or opens the device.
TEST(CudaSupport, ABuildWithoutTheBackendSaysHowToGetIt) {
  if (has_cuda_backend()) return;
  const auto device = new_cuda_device(0);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(device.error().message.find("./do build cuda"), std::string::npos);
}

}  // namespace
}  // namespace ashlar
