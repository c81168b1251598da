// Time of one operation on the CUDA device, without the host: many calls are recorded into a graph,
// as steps are, and its replay is timed. For tests named DISABLED_...Speed, which print and judge
// nothing.
#ifndef ASHLAR_TESTING_TIMING_CUDA_H_
#define ASHLAR_TESTING_TIMING_CUDA_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "device/launch_cuda.h"

namespace ashlar {

// Microseconds a call, best of five replays. call(i) issues one call; the caller picks its buffers
// by i, so that together they are more than the L2 cache holds, where that matters.
template <class Call>
double microseconds_a_call(Stream& stream, int calls, const Call& call) {
  const auto expect_ok = [](cudaError_t error) {
    EXPECT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
  };
  call(0);  // whatever is chosen at first use is chosen now
  EXPECT_TRUE(stream.synchronize());
  const cudaStream_t raw = cuda_stream(stream);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t recorded = nullptr;
  expect_ok(cudaStreamBeginCapture(raw, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < calls; ++i) call(i);
  expect_ok(cudaStreamEndCapture(raw, &graph));
  expect_ok(cudaGraphInstantiate(&recorded, graph, 0));
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  expect_ok(cudaEventCreate(&begin));
  expect_ok(cudaEventCreate(&end));
  float best = 1e30f;
  for (int i = 0; i < 6; ++i) {
    expect_ok(cudaEventRecord(begin, raw));
    expect_ok(cudaGraphLaunch(recorded, raw));
    expect_ok(cudaEventRecord(end, raw));
    expect_ok(cudaEventSynchronize(end));
    float milliseconds = 0;
    expect_ok(cudaEventElapsedTime(&milliseconds, begin, end));
    if (i > 0) best = std::min(best, milliseconds);
  }
  expect_ok(cudaEventDestroy(begin));
  expect_ok(cudaEventDestroy(end));
  expect_ok(cudaGraphExecDestroy(recorded));
  expect_ok(cudaGraphDestroy(graph));
  return static_cast<double>(best) * 1e3 / calls;
}

inline void print_speed(const char* what, double microseconds, int64_t bytes) {
  std::printf("%-44s %8.2f us %8.0f GB/s\n", what, microseconds,
              static_cast<double>(bytes) / microseconds * 1e-3);
}

}  // namespace ashlar

#endif  // ASHLAR_TESTING_TIMING_CUDA_H_
