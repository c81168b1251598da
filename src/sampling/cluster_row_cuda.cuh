// One row of logits spread over the shared memory of a cluster of CTAs, and what the CTAs tell each
// other: sums, minima, a histogram. A row is read from memory once; every later pass runs where it
// lies.
//
// All results are minima, integer sums and positions, so neither the cluster's size nor the order
// of atomic additions shows in them. A message is written into the inbox of every CTA before a
// cluster barrier and read after it; inboxes alternate between two, since a CTA may run ahead by
// one barrier, never by two. Functions are called by all threads of all CTAs of the cluster.
#ifndef ASHLAR_SAMPLING_CLUSTER_ROW_CUDA_CUH_
#define ASHLAR_SAMPLING_CLUSTER_ROW_CUDA_CUH_

#include <cooperative_groups.h>

#include <cstdint>

#include "sampling/logit_weight_cuda.cuh"

namespace ashlar {

namespace sampler {

namespace cg = cooperative_groups;

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kLargestCluster = 16;
constexpr int kSmallestCluster = 8;
constexpr int kBins = 1024;
constexpr int kTailBin = kBins - 1;
constexpr float kBinsPerOctave = 64.0f;
constexpr int kListRoom = 2048;
constexpr int kSmallList = 32;

struct Message {
  uint64_t a;
  uint64_t b;
  uint64_t c = 0;
};

// Where a border lies in a histogram.
struct Located {
  uint64_t bin;
  uint64_t bin_count;
  uint64_t mass_before;
  uint64_t count_before;
};

struct Border {
  uint64_t preference;  // the last token that is kept
  uint64_t mass;        // of it and all before it
};

// Of one CTA; the row's slice follows it in dynamic shared memory.
struct Shared {
  Message inbox[2][kLargestCluster];
  Located located[2];
  Border border[2];
  Border local_border;
  uint64_t merged_mass[2][kBins / kSmallestCluster];
  uint32_t merged_count[2][kBins / kSmallestCluster];
  uint32_t hist_low[kBins];  // mass of a bin: low and high words, a carry goes to the high one
  uint32_t hist_high[kBins];
  uint32_t hist_count[kBins];
  uint64_t list[kListRoom];
  uint64_t small_list[kSmallList];
  uint64_t small_weights[kSmallList];
  uint64_t warp_scratch[2][kWarps];
  uint64_t found[2];
  uint32_t list_count;
};
constexpr int kSliceOffset = (sizeof(Shared) + 15) / 16 * 16;

enum class Quantity { kMass, kCount };

struct MinOf {
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a < b ? a : b; }
};
struct MaxOf {
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a > b ? a : b; }
};
struct SumOf {
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a + b; }
};

// The same to every thread of the CTA.
template <class Combine>
__device__ __forceinline__ uint64_t block_reduce(uint64_t value, Shared& shared, Combine combine) {
#pragma unroll
  for (int half = 16; half > 0; half /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, half));
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared.warp_scratch[0][threadIdx.x / 32] = value;
  __syncthreads();
  value = shared.warp_scratch[0][threadIdx.x % kWarps];
#pragma unroll
  for (int half = kWarps / 2; half > 0; half /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, half));
  }
  return value;
}

__device__ __forceinline__ uint64_t warp_inclusive_sum(uint64_t value) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const uint64_t other = __shfl_up_sync(0xffffffffu, value, step);
    if (lane >= step) value += other;
  }
  return value;
}

__device__ __forceinline__ uint64_t block_inclusive_sum(uint64_t value, Shared& shared) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  value = warp_inclusive_sum(value);
  __syncthreads();
  if (threadIdx.x % 32 == 31) shared.warp_scratch[0][warp] = value;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kWarps; ++w) value += w < warp ? shared.warp_scratch[0][w] : 0;
  return value;
}

// Two of them at once.
__device__ __forceinline__ Message block_inclusive_sums(Message value, Shared& shared) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  value.a = warp_inclusive_sum(value.a);
  value.b = warp_inclusive_sum(value.b);
  __syncthreads();
  if (threadIdx.x % 32 == 31) {
    shared.warp_scratch[0][warp] = value.a;
    shared.warp_scratch[1][warp] = value.b;
  }
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    value.a += w < warp ? shared.warp_scratch[0][w] : 0;
    value.b += w < warp ? shared.warp_scratch[1][w] : 0;
  }
  return value;
}

struct ClusterRow {
  Shared& shared;
  float* x;        // the slice of this CTA
  uint32_t first;  // id of x[0]
  int count;       // of the slice
  int rank;
  int ctas;
  int parity = 0;

  __device__ Shared& shared_of(int other) const {
    return *cg::this_cluster().map_shared_rank(&shared, static_cast<unsigned>(other));
  }

  // Every CTA hands in one message and gets all of them, by rank. They stay until the next but one.
  __device__ const Message* exchange(uint64_t a, uint64_t b, uint64_t c = 0) {
    if (static_cast<int>(threadIdx.x) < ctas) {
      shared_of(static_cast<int>(threadIdx.x)).inbox[parity][rank] = {a, b, c};
    }
    cg::this_cluster().sync();
    const Message* messages = shared.inbox[parity];
    parity ^= 1;
    return messages;
  }

  // Calls body(x, id) for the elements of this thread, in ascending order of ids.
  template <class Body>
  __device__ __forceinline__ void for_each(const Body& body) const {
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
      body(x[i], first + static_cast<uint32_t>(i));
    }
  }
};

// The most preferred token of the row.
__device__ __forceinline__ uint64_t most_preferred(ClusterRow& row, uint64_t of_thread) {
  const Message* messages = row.exchange(block_reduce(of_thread, row.shared, MinOf()), 0);
  uint64_t best = messages[0].a;
  for (int c = 1; c < row.ctas; ++c) best = MinOf()(best, messages[c].a);
  return best;
}

__device__ __forceinline__ void add_to_bin(Shared& shared, int bin, uint64_t mass) {
  const uint32_t low = static_cast<uint32_t>(mass);
  const uint32_t before = atomicAdd(&shared.hist_low[bin], low);
  const uint32_t high = static_cast<uint32_t>(mass >> 32) + (before + low < before ? 1u : 0u);
  if (high != 0) atomicAdd(&shared.hist_high[bin], high);
  atomicAdd(&shared.hist_count[bin], 1u);
}

__device__ __forceinline__ void clear_bins(Shared& shared) {
  for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kThreads) {
    shared.hist_low[bin] = shared.hist_high[bin] = shared.hist_count[bin] = 0;
  }
  __syncthreads();
}

__device__ __forceinline__ uint64_t mass_of_bin(const Shared& shared, int bin) {
  return static_cast<uint64_t>(shared.hist_high[bin]) << 32 | shared.hist_low[bin];
}

// What the whole row has, and what lies in the bins of lower CTAs.
struct Totals {
  Message all;     // a: mass, b: count
  Message before;  // of the bins of lower ranks
  Message mine;
};

// Adds the histograms of all CTAs, which a barrier has seen complete: CTA c gets bins
// [c kBins / C, (c + 1) kBins / C) of the sum.
__device__ inline Totals merge_histograms(ClusterRow& row, int level) {
  Shared& shared = row.shared;
  const int bins = kBins / row.ctas;
  const int parts = kThreads / bins;
  const int tid = static_cast<int>(threadIdx.x);
  const int bin = row.rank * bins + tid % bins;
  Message sum = {0, 0};
  for (int c = tid / bins; c < row.ctas; c += parts) {
    const Shared& other = row.shared_of(c);
    sum.a += mass_of_bin(other, bin);
    sum.b += other.hist_count[bin];
  }
  uint64_t* part_mass = shared.list;  // free until something is collected
  uint64_t* part_count = shared.list + kThreads;
  part_mass[tid] = sum.a;
  part_count[tid] = sum.b;
  __syncthreads();
  Message total = {0, 0};
  if (tid < bins) {
    for (int p = 0; p < parts; ++p) {
      total.a += part_mass[p * bins + tid];
      total.b += part_count[p * bins + tid];
    }
    shared.merged_mass[level][tid] = total.a;
    shared.merged_count[level][tid] = static_cast<uint32_t>(total.b);
  }
  Totals totals = {};
  totals.mine.a = block_reduce(total.a, shared, SumOf());
  totals.mine.b = block_reduce(total.b, shared, SumOf());
  const Message* messages = row.exchange(totals.mine.a, totals.mine.b);
  for (int c = 0; c < row.ctas; ++c) {
    if (c == row.rank) totals.before = totals.all;
    totals.all.a += messages[c].a;
    totals.all.b += messages[c].b;
  }
  return totals;
}

// The bin in which the quantity, summed from the first bin on, reaches target; 1 <= target <= all.
__device__ inline Located locate(ClusterRow& row, const Totals& totals, int level,
                                 Quantity quantity, uint64_t target) {
  Shared& shared = row.shared;
  const bool mass = quantity == Quantity::kMass;
  const uint64_t before = mass ? totals.before.a : totals.before.b;
  const uint64_t mine = mass ? totals.mine.a : totals.mine.b;
  if (before < target && target <= before + mine && threadIdx.x < 32) {
    const int bins = kBins / row.ctas / 32;  // of a lane
    const int begin = static_cast<int>(threadIdx.x) * bins;
    Message sum = {0, 0};
    for (int b = begin; b < begin + bins; ++b) {
      sum.a += shared.merged_mass[level][b];
      sum.b += shared.merged_count[level][b];
    }
    const uint64_t mass_end = totals.before.a + warp_inclusive_sum(sum.a);
    const uint64_t count_end = totals.before.b + warp_inclusive_sum(sum.b);
    Located at = {0, 0, mass_end - sum.a, count_end - sum.b};
    const uint64_t begins = mass ? at.mass_before : at.count_before;
    if (begins < target && target <= (mass ? mass_end : count_end)) {
      int b = begin;
      for (;; ++b) {
        const uint64_t bin_mass = shared.merged_mass[level][b];
        const uint64_t bin_count = shared.merged_count[level][b];
        const uint64_t end = mass ? at.mass_before + bin_mass : at.count_before + bin_count;
        at.bin_count = bin_count;
        if (target <= end || b == begin + bins - 1) break;
        at.mass_before += bin_mass;
        at.count_before += bin_count;
      }
      at.bin = static_cast<uint64_t>(row.rank * kBins / row.ctas + b);
      for (int c = 0; c < row.ctas; ++c) row.shared_of(c).located[row.parity] = at;
    }
  }
  cg::this_cluster().sync();
  const Located at = shared.located[row.parity];
  row.parity ^= 1;
  return at;
}

}  // namespace sampler

}  // namespace ashlar

#endif  // ASHLAR_SAMPLING_CLUSTER_ROW_CUDA_CUH_
