// The CUDA cells of resolve_rows (a thread a row) and accept_tokens (a thread a sequence). Both
// move a few hundred bytes; their time is the kernel boundary.
#include <algorithm>

#include "base/align.h"
#include "device/launch_cuda.h"
#include "kernels/hopper/dependent_launch.cuh"
#include "kernels/step_rows/step_rows.h"

namespace ashlar {

namespace {

constexpr int kThreads = 128;

struct ResolveKernelArgs {
  const int32_t* host_tokens;
  const int32_t* row_sequence;
  const int32_t* sequence_starts;
  const int32_t* slots;
  const int32_t* starts;
  const int32_t* feed;
  int32_t* lengths;
  const int32_t* drafts;
  int32_t* tokens;
  int32_t* positions;
  int32_t rows;
  int32_t sequences;
  int32_t draft_stride;
};

// Thread i serves row i, and sequence i for the length that `starts` sets; no row reads such a
// length, since all take the start itself.
__global__ void __launch_bounds__(kThreads) resolve_rows_kernel(ResolveKernelArgs args) {
  wait_for_predecessor();
  let_successor_start();
  const int32_t t = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (t < args.sequences) {
    const int32_t slot = args.slots[t];
    const int32_t start = args.starts[t];
    if (slot >= 0 && start != kKeepsLength) args.lengths[slot] = start;
  }
  if (t >= args.rows) return;
  int32_t token = 0;
  int32_t position = 0;
  const int32_t s = args.row_sequence[t];
  const int32_t slot = s >= 0 ? args.slots[s] : -1;
  if (slot >= 0) {
    const int32_t index = t - args.sequence_starts[s];
    const int32_t start = args.starts[s];
    token = args.host_tokens[t];
    if (token == kFedToken) {
      token = index == 0 ? args.feed[slot]
                         : args.drafts[static_cast<int64_t>(slot) * args.draft_stride + index - 1];
    }
    position = (start == kKeepsLength ? args.lengths[slot] : start) + index;
  }
  args.tokens[t] = token;
  args.positions[t] = position;
}

struct AcceptKernelArgs {
  const int32_t* slots;
  const int32_t* sequence_starts;
  const int32_t* first_output;
  const int32_t* draft_counts;
  const int32_t* sampled;
  const int32_t* failures;
  int32_t* feed;
  int32_t* lengths;
  const int32_t* drafts;
  int32_t* counts;  // null: none
  const int32_t* counted;
  int32_t* accepted;
  int64_t count_stride;
  int32_t sequences;
  int32_t draft_stride;
};

__global__ void __launch_bounds__(kThreads) accept_tokens_kernel(AcceptKernelArgs args) {
  wait_for_predecessor();
  let_successor_start();
  const int32_t s = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (s >= args.sequences) return;
  const int32_t slot = args.slots[s];
  if (slot < 0) {
    args.accepted[s] = 0;
    return;
  }
  const int32_t first = args.first_output[s];
  const int32_t drafts = first == kNoOutput ? 0 : args.draft_counts[s];
  int32_t length =
      args.lengths[slot] + args.sequence_starts[s + 1] - args.sequence_starts[s] - drafts;
  int32_t accepted = 0;
  for (int32_t i = 0; first != kNoOutput && i <= drafts; ++i) {
    if (args.failures[first + i] != 0) {
      args.feed[slot] = 0;  // a step in flight may still read it
      accepted = 0;
      break;
    }
    const int32_t token = args.sampled[first + i];
    args.feed[slot] = token;
    accepted = i + 1;
    if (args.counts != nullptr && args.counted[slot] != 0) {
      ++args.counts[slot * args.count_stride + token];
    }
    if (i == drafts || args.drafts[static_cast<int64_t>(slot) * args.draft_stride + i] != token) {
      break;
    }
    ++length;
  }
  args.lengths[slot] = length;
  args.accepted[s] = accepted;
}

dim3 grid_for(int64_t threads) { return dim3(static_cast<unsigned>(divide_up(threads, kThreads))); }

}  // namespace

void resolve_rows_cuda(Stream& stream, const ResolveRowsArgs& args) {
  const ResolveKernelArgs kernel_args = {args.host_tokens.as<int32_t>(),
                                         args.row_sequence.as<int32_t>(),
                                         args.sequence_starts.as<int32_t>(),
                                         args.slots.as<int32_t>(),
                                         args.starts.as<int32_t>(),
                                         args.feed.as<int32_t>(),
                                         args.lengths.as<int32_t>(),
                                         args.drafts.as<int32_t>(),
                                         args.tokens.as<int32_t>(),
                                         args.positions.as<int32_t>(),
                                         static_cast<int32_t>(args.tokens.dim(0)),
                                         static_cast<int32_t>(args.slots.dim(0)),
                                         static_cast<int32_t>(args.drafts.dim(1))};
  launch(
      stream, "resolve_rows", resolve_rows_kernel,
      {.grid = grid_for(std::max(args.tokens.dim(0), args.slots.dim(0))), .block = dim3(kThreads)},
      kernel_args);
}

void accept_tokens_cuda(Stream& stream, const AcceptTokensArgs& args) {
  const bool counts = !args.counts.empty();
  const AcceptKernelArgs kernel_args = {args.slots.as<int32_t>(),
                                        args.sequence_starts.as<int32_t>(),
                                        args.first_output.as<int32_t>(),
                                        args.draft_counts.as<int32_t>(),
                                        args.sampled.as<int32_t>(),
                                        args.failures.as<int32_t>(),
                                        args.feed.as<int32_t>(),
                                        args.lengths.as<int32_t>(),
                                        args.drafts.as<int32_t>(),
                                        counts ? args.counts.as<int32_t>() : nullptr,
                                        counts ? args.counted.as<int32_t>() : nullptr,
                                        args.accepted.as<int32_t>(),
                                        counts ? args.counts.row_stride() : 0,
                                        static_cast<int32_t>(args.slots.dim(0)),
                                        static_cast<int32_t>(args.drafts.dim(1))};
  launch(stream, "accept_tokens", accept_tokens_kernel,
         {.grid = grid_for(args.slots.dim(0)), .block = dim3(kThreads)}, kernel_args);
}

}  // namespace ashlar
