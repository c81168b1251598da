// The CUDA device of a test, or the reason to skip it: tests that need a GPU are in files named
// *_cuda_test.cc and begin with ASHLAR_NEEDS_CUDA(), also in SetUp() of a fixture.
//
// A machine without a device lists them as skipped, never as passed; `./do test cuda` fails there.
#ifndef ASHLAR_TESTING_CUDA_DEVICE_H_
#define ASHLAR_TESTING_CUDA_DEVICE_H_

#include <gtest/gtest.h>

#include "device/device.h"

namespace ashlar {

// Device 0, opened once a process; an error when there is none that can be used.
const Result<std::unique_ptr<Device>>& test_cuda_device();

// For tests that began with ASHLAR_NEEDS_CUDA().
Device& cuda_device();

}  // namespace ashlar

#define ASHLAR_NEEDS_CUDA()                                                                      \
  if (!::ashlar::test_cuda_device()) {                                                           \
    GTEST_SKIP() << "skipped: no CUDA device: " << ::ashlar::test_cuda_device().error().message; \
  }                                                                                              \
  static_assert(true)

#endif  // ASHLAR_TESTING_CUDA_DEVICE_H_
