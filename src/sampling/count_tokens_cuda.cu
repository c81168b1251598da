// The CUDA cell of count_tokens: clears a row of counts, then adds a token a thread. Two launches,
// since all of the row must be clear before the first token is counted; it runs once when a
// sequence with penalties takes a slot.
#include <algorithm>

#include "base/align.h"
#include "device/launch_cuda.h"
#include "kernels/hopper/dependent_launch.cuh"
#include "sampling/sample_tokens.h"

namespace ashlar {

namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) clear_counts_kernel(int32_t* counts, int64_t columns) {
  wait_for_predecessor();
  let_successor_start();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < columns) counts[i] = 0;
}

__global__ void __launch_bounds__(kThreads)
    count_tokens_kernel(const int32_t* tokens, int64_t count, int64_t prompt_tokens,
                        int32_t* counts, int64_t columns) {
  wait_for_predecessor();
  let_successor_start();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const int32_t token = tokens[i];
  if (token < 0 || token >= columns) return;
  if (i < prompt_tokens) {
    atomicOr(&counts[token], kPromptToken);
  } else {
    atomicAdd(&counts[token], 1);
  }
}

dim3 grid_for(int64_t threads) { return dim3(static_cast<unsigned>(divide_up(threads, kThreads))); }

}  // namespace

void count_tokens_cuda(Stream& stream, const CountTokensArgs& args) {
  const int64_t columns = args.counts.dim(0);
  int32_t* counts = args.counts.as<int32_t>();
  launch(stream, "count_tokens", clear_counts_kernel,
         {.grid = grid_for(columns), .block = dim3(kThreads)}, counts, columns);
  if (args.tokens.empty()) return;
  launch(stream, "count_tokens", count_tokens_kernel,
         {.grid = grid_for(args.tokens.dim(0)), .block = dim3(kThreads)}, args.tokens.as<int32_t>(),
         args.tokens.dim(0), args.prompt_tokens, counts, columns);
}

}  // namespace ashlar
