// The CUDA cell of sample_tokens: a cluster of 8 or 16 CTAs a row, one launch for everything.
//
//   step                                                        barriers of the cluster
//   logits [V] into shared memory, the best token               1; greedy ends here
//   raw sum and alternatives (logprobs)                         1; 2 with alternatives
//   bias, penalties, mask, suppressed ends, the best again      1, if there are any
//   nothing cut: sum of what is kept, draw in order of ids      1
//   top-k, top-p: sums, lists of the likeliest; one CTA ends    2
//   the same where those lists do not hold all that is kept     7 for one border, 10 for two
//
// Bytes: the decodable logits once, 608 KB for 151,936 columns; columns beyond are not read and the
// logits are not changed. A slice has to fit: 8 CTAs hold 390,000 columns, 16 twice that. Clusters
// of 16 serve few rows, where one row would else use 8 of 132 SMs; the result is the same.
#include <cooperative_groups.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/align.h"
#include "device/launch_cuda.h"
#include "kernels/hopper/dependent_launch.cuh"
#include "sampling/draw_cuda.cuh"
#include "sampling/sample_tokens.h"

namespace ashlar {

namespace {

namespace cg = cooperative_groups;
using namespace sampler;

constexpr float kForbidden = -INFINITY;
constexpr int64_t kRowsOfLargeClusters = 4;
constexpr double kFullWeightAsDouble = 0x1p40;

struct SampleKernelArgs {
  const float* logits;
  const SlotSampling* slots;
  const int32_t* bias_tokens;
  const float* bias_values;
  const int32_t* end_tokens;
  const int32_t* counts;  // null: none
  const int32_t* row_slot;
  const int32_t* row_draft;
  const int32_t* row_mask;
  const uint32_t* masks;
  const int32_t* drafts;
  const int32_t* output_rows;
  const int32_t* positions;
  int32_t* tokens;
  int32_t* failures;
  float* logprobs;
  int32_t* top_tokens;
  float* top_logprobs;
  int64_t logits_stride;
  int64_t counts_stride;
  int64_t top_stride;
  int64_t top_logprobs_stride;
  int32_t bias_stride;
  int32_t bias_value_stride;
  int32_t end_stride;
  int32_t mask_stride;
  int32_t draft_stride;
  int32_t decodable;
  int32_t slice;  // columns of a CTA, a multiple of 4
};

// What the raw logits say, for logprobs.
struct Raw {
  float max;
  double log_sum;  // log of the sum of exp(logit - max)

  __device__ float logprob(float logit) const {
    return static_cast<float>(static_cast<double>(logit) - static_cast<double>(max) - log_sum);
  }
};

struct Best {
  uint64_t preference;
  bool sound;
};

// Keeps the best of the elements it is shown; ids ascend, so ties stay with the lower.
struct BestOfThread {
  float x = kForbidden;
  uint32_t id = ~0u;
  bool sound = true;

  __device__ __forceinline__ void see(float v, uint32_t v_id) {
    sound = sound && v < INFINITY;  // false for NaN, too
    if (v > x) {
      x = v;
      id = v_id;
    }
  }
  __device__ __forceinline__ void see(float4 v, uint32_t v_id) {
    see(v.x, v_id);
    see(v.y, v_id + 1);
    see(v.z, v_id + 2);
    see(v.w, v_id + 3);
  }
};

// Reads the slice, five loads of 16 bytes in flight a thread: with 16 CTAs, all of 151,936 columns.
__device__ __forceinline__ BestOfThread load_slice(const ClusterRow& row, const float* logits) {
  constexpr int kBatch = 5;
  BestOfThread best;
  const float* from = logits + row.first;
  const bool aligned = reinterpret_cast<uintptr_t>(from) % 16 == 0;
  const int quads = aligned ? row.count / 4 : 0;
  for (int begin = static_cast<int>(threadIdx.x); begin < quads; begin += kBatch * kThreads) {
    float4 v[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int q = begin + i * kThreads;
      if (q < quads) v[i] = reinterpret_cast<const float4*>(from)[q];
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int q = begin + i * kThreads;
      if (q >= quads) continue;
      reinterpret_cast<float4*>(row.x)[q] = v[i];
      best.see(v[i], row.first + 4 * static_cast<uint32_t>(q));
    }
  }
  for (int i = 4 * quads + static_cast<int>(threadIdx.x); i < row.count; i += kThreads) {
    row.x[i] = from[i];
    best.see(row.x[i], row.first + static_cast<uint32_t>(i));
  }
  return best;
}

__device__ Best first_best(ClusterRow& row, const BestOfThread& mine) {
  const bool bad = __syncthreads_or(mine.sound ? 0 : 1) != 0;
  const Message* messages =
      row.exchange(block_reduce(preference(mine.x, mine.id), row.shared, MinOf()), bad ? 1 : 0);
  Best best = {messages[0].a, messages[0].b == 0};
  for (int c = 1; c < row.ctas; ++c) {
    best.preference = MinOf()(best.preference, messages[c].a);
    best.sound = best.sound && messages[c].b == 0;
  }
  return best;
}

__device__ uint64_t best_again(ClusterRow& row) {
  BestOfThread mine;
  row.for_each([&](float x, uint32_t id) { mine.see(x, id); });
  return most_preferred(row, preference(mine.x, mine.id));
}

__device__ uint64_t sum_of_row(ClusterRow& row, Weighting w) {
  uint64_t sum = 0;
  row.for_each([&](float x, uint32_t) { sum += weight_of(octaves_of(x, w.max, w.scale)); });
  const Message* messages = row.exchange(block_reduce(sum, row.shared, SumOf()), 0);
  uint64_t all = 0;
  for (int c = 0; c < row.ctas; ++c) all += messages[c].a;
  return all;
}

// Writes the alternatives up to the border, likeliest first. Run by one CTA.
__device__ void report_top(Shared& shared, const Raw& raw, const ThreadTokens& tokens,
                           uint64_t border, int32_t* to_tokens, float* to_logprobs) {
  uint64_t* top = reinterpret_cast<uint64_t*>(shared.hist_low);  // free by now
  if (threadIdx.x == 0) shared.list_count = 0;
  __syncthreads();
  for (const uint64_t p : tokens.t) {
    if (p <= border) top[atomicAdd(&shared.list_count, 1u)] = p;
  }
  __syncthreads();
  const int count = static_cast<int>(shared.list_count);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    int place = 0;
    for (int j = 0; j < count; ++j) place += top[j] < top[i] ? 1 : 0;
    to_tokens[place] = static_cast<int32_t>(top[i]);
    to_logprobs[place] = raw.logprob(preferred_logit(top[i]));
  }
}

__device__ Raw measure(ClusterRow& row, const SampleKernelArgs& args, int32_t asked, float max) {
  const Weighting w = {max, 0x1.715476p0f, true};  // log2(e)
  const int64_t r = blockIdx.y;
  Raw raw = {max, 0.0};
  const auto log_of = [](uint64_t sum) {
    return log(static_cast<double>(sum) / kFullWeightAsDouble);
  };
  if (asked == 0) {
    raw.log_sum = log_of(sum_of_row(row, w));
    return raw;
  }
  const uint64_t wanted = static_cast<uint64_t>(min(asked, args.decodable));
  const Survey survey = survey_row(row, w);
  raw.log_sum = log_of(survey.mass);
  const Message* messages = survey.messages;
  const bool held = survey.holds_count(wanted);
  uint64_t border = kNoToken;
  if (!held) {
    const Totals totals = merge_histograms(row, 0);
    border = find_border(row, w, totals, Quantity::kCount, wanted).preference;
    messages = collect(row, [&](float x, uint32_t id) { return preference(x, id) <= border; });
  }
  ThreadTokens tokens = {};
  if (row.rank == 0) tokens = pull_lists(row, messages);
  cg::this_cluster().sync();  // the lists of the others were read
  if (row.rank == 0) {
    if (held) {
      const Range range = {0, kNoToken, survey.listed, 0, 0};
      border = select_locally<ByPreference>(row.shared, w, Quantity::kCount, wanted, tokens, range)
                   .preference;
    }
    report_top(row.shared, raw, tokens, border, args.top_tokens + r * args.top_stride,
               args.top_logprobs + r * args.top_logprobs_stride);
    __syncthreads();
  }
  return raw;
}

// The first entry of a token adds all of its entries, in their order.
__device__ __forceinline__ void add_biases(const ClusterRow& row, const int32_t* tokens,
                                           const float* values, int count) {
  for (int j = static_cast<int>(threadIdx.x); j < count; j += kThreads) {
    const uint32_t at = static_cast<uint32_t>(tokens[j]) - row.first;
    if (at >= static_cast<uint32_t>(row.count)) continue;
    bool first = true;
    for (int i = 0; i < j; ++i) first = first && tokens[i] != tokens[j];
    if (!first) continue;
    float x = row.x[at];
    for (int i = j; i < count; ++i) {
      if (tokens[i] == tokens[j]) x = __fadd_rn(x, values[i]);
    }
    row.x[at] = x;
  }
}

__device__ __forceinline__ float penalized(float x, const SlotSampling& p, int32_t count) {
  x = x > 0.0f ? __fdiv_rn(x, p.repetition) : __fmul_rn(x, p.repetition);
  if (count == 0) return x;
  const float less = __fadd_rn(__fmul_rn(p.frequency, static_cast<float>(count)), p.presence);
  return __fsub_rn(x, less);
}

// Counts are read eight at a time, before any of them is used: else every step of the loop waits
// for memory.
__device__ __forceinline__ void penalize(const ClusterRow& row, const SlotSampling& p,
                                         const int32_t* counts, const int32_t* drafts,
                                         int draft_count) {
  constexpr int kBatch = 8;
  const int32_t* from = counts + row.first;
  for (int begin = static_cast<int>(threadIdx.x); begin < row.count; begin += kBatch * kThreads) {
    int32_t known[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = begin + b * kThreads;
      known[b] = i < row.count ? from[i] : 0;
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = begin + b * kThreads;
      int32_t count = known[b] & ~kPromptToken;
      for (int d = 0; d < draft_count; ++d) {
        count += drafts[d] == static_cast<int32_t>(row.first) + i ? 1 : 0;
      }
      if (i < row.count && (known[b] != 0 || count != 0)) row.x[i] = penalized(row.x[i], p, count);
    }
  }
}

// Bias, penalties, mask and suppressed end tokens; whether there was anything to do.
__device__ bool adjust(ClusterRow& row, const SampleKernelArgs& args, const SlotSampling& p,
                       int32_t slot, int64_t position) {
  const int64_t r = blockIdx.y;
  const int32_t mask = args.row_mask[r];
  const bool ends = p.end_tokens > 0 && position < p.end_allowed_from;
  if (p.biases == 0 && p.penalties == 0 && mask < 0 && !ends) return false;
  __syncthreads();
  if (p.biases > 0) {
    add_biases(row, args.bias_tokens + static_cast<int64_t>(slot) * args.bias_stride,
               args.bias_values + static_cast<int64_t>(slot) * args.bias_value_stride, p.biases);
    __syncthreads();
  }
  if (p.penalties != 0) {
    penalize(row, p, args.counts + slot * args.counts_stride,
             args.drafts + static_cast<int64_t>(slot) * args.draft_stride, args.row_draft[r]);
  }
  if (mask >= 0) {
    const uint32_t* allowed = args.masks + static_cast<int64_t>(mask) * args.mask_stride;
    for (int i = static_cast<int>(threadIdx.x); i < row.count; i += kThreads) {
      const uint32_t id = row.first + static_cast<uint32_t>(i);
      if ((allowed[id / 32] >> (id % 32) & 1u) == 0) row.x[i] = kForbidden;
    }
  }
  __syncthreads();
  if (ends) {
    const int32_t* tokens = args.end_tokens + static_cast<int64_t>(slot) * args.end_stride;
    for (int j = static_cast<int>(threadIdx.x); j < p.end_tokens; j += kThreads) {
      const uint32_t at = static_cast<uint32_t>(tokens[j]) - row.first;
      if (at < static_cast<uint32_t>(row.count)) row.x[at] = kForbidden;
    }
    __syncthreads();
  }
  return true;
}

// The token that is drawn, in one thread of the cluster; -1 in the others.
__device__ int32_t choose(ClusterRow& row, const SlotSampling& p, Weighting w, int32_t decodable,
                          int64_t position) {
  const uint64_t bits = device_random_bits(p.seed, p.choice, position);
  Cuts cuts = {p.top_k > 0 && p.top_k < decodable, p.top_p < 1.0, static_cast<uint64_t>(p.top_k),
               p.top_p};
  if (!cuts.any()) return draw(row, w, kNoToken, p.least_weight, bits);
  const Survey survey = survey_row(row, w);
  cuts.k = cuts.k && cuts.top_k < survey.count;
  if (!cuts.any()) return draw(row, w, kNoToken, p.least_weight, bits);
  if (cuts.held_by(survey)) {
    return draw_from_lists(row, w, survey, cuts, p.least_weight, bits);
  }
  const Totals totals = merge_histograms(row, 0);
  const uint64_t border = cut(cuts, survey.mass, [&](Quantity quantity, uint64_t target) {
    return find_border(row, w, totals, quantity, target);
  });
  return draw(row, w, border, p.least_weight, bits);
}

__device__ void finish(const SampleKernelArgs& args, int32_t token, int32_t failure,
                       const Raw* raw) {
  const int64_t r = blockIdx.y;
  args.tokens[r] = token;
  args.failures[r] = failure;
  if (raw != nullptr) {
    args.logprobs[r] = raw->logprob(args.logits[r * args.logits_stride + token]);
  }
}

// Grid [cluster, R].
__global__ void __launch_bounds__(kThreads, 2) sample_tokens_kernel(SampleKernelArgs args) {
  extern __shared__ __align__(16) unsigned char memory[];
  const cg::cluster_group cluster = cg::this_cluster();
  const int rank = static_cast<int>(cluster.block_rank());
  const bool writer = rank == 0 && threadIdx.x == 0;
  const int begin = min(rank * args.slice, args.decodable);
  ClusterRow row = {*reinterpret_cast<Shared*>(memory),
                    reinterpret_cast<float*>(memory + kSliceOffset),
                    static_cast<uint32_t>(begin),
                    min(args.slice, args.decodable - begin),
                    rank,
                    static_cast<int>(cluster.num_blocks())};
  const int64_t r = blockIdx.y;
  cluster.sync();  // all CTAs have started: their shared memory may be written
  wait_for_predecessor();
  let_successor_start();
  const int32_t slot = args.row_slot[r];
  if (slot < 0) {
    if (writer) finish(args, 0, 0, nullptr);
    return;
  }
  const SlotSampling p = args.slots[slot];
  const int64_t position = static_cast<int64_t>(args.positions[args.output_rows[r]]) + 1;

  const Best first = first_best(row, load_slice(row, args.logits + r * args.logits_stride));
  const float raw_max = preferred_logit(first.preference);
  if (!first.sound || raw_max == kForbidden) {
    if (writer) {
      finish(args, 0,
             static_cast<int32_t>(first.sound ? SampleFailure::kNothingAllowed
                                              : SampleFailure::kNotFinite),
             nullptr);
    }
    return;
  }
  Raw raw = {raw_max, 0.0};
  if (p.logprobs >= 0) raw = measure(row, args, p.logprobs, raw_max);
  const Raw* reported = p.logprobs >= 0 ? &raw : nullptr;

  uint64_t best = first.preference;
  if (adjust(row, args, p, slot, position)) best = best_again(row);
  const Weighting w = {preferred_logit(best), p.scale};
  if (w.max == kForbidden) {
    if (writer) {
      finish(args, 0, static_cast<int32_t>(SampleFailure::kNothingAllowed), nullptr);
    }
    return;
  }
  if (p.scale == 0.0f || p.top_k == 1) {
    if (writer) finish(args, static_cast<int32_t>(best), 0, reported);
    return;
  }
  const int32_t token = choose(row, p, w, args.decodable, position);
  if (token >= 0) finish(args, token, 0, reported);
}

// Whether this device runs clusters of 16 CTAs of that size, which is more than every device has
// to. It allows them, too, which is a state of the device.
bool allow_large_clusters(int ordinal, size_t shared_bytes) {
  const void* kernel = reinterpret_cast<const void*>(sample_tokens_kernel);
  if (cudaSetDevice(ordinal) != cudaSuccess ||
      cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) !=
          cudaSuccess ||
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(shared_bytes)) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = kLargestCluster;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(kLargestCluster);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = shared_bytes;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  if (cudaOccupancyMaxActiveClusters(&clusters, kernel, &config) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return clusters >= 1;
}

// Asked once a device.
bool large_clusters_fit(const CudaTraits& traits) {
  static std::mutex mutex;
  static std::map<int, bool> known;
  const std::lock_guard lock(mutex);
  const auto [entry, unknown] = known.try_emplace(traits.ordinal, false);
  if (unknown) {
    entry->second = allow_large_clusters(traits.ordinal, traits.shared_bytes_per_block);
  }
  return entry->second;
}

}  // namespace

void sample_tokens_cuda(Stream& stream, const SampleTokensArgs& args) {
  const int64_t rows = args.logits.dim(0);
  const size_t most = cuda_traits(stream).shared_bytes_per_block;
  const bool large_clusters = large_clusters_fit(cuda_traits(stream));
  const auto slice_of = [&](int cluster) {
    return round_up(divide_up(args.decodable, cluster), 4);
  };
  const auto shared_bytes = [&](int cluster) {
    return static_cast<size_t>(kSliceOffset) + static_cast<size_t>(slice_of(cluster)) * 4;
  };
  const bool large =
      large_clusters && (rows <= kRowsOfLargeClusters || shared_bytes(kSmallestCluster) > most);
  const int cluster = large ? kLargestCluster : kSmallestCluster;
  CHECK_LE(shared_bytes(cluster), most);
  const SampleKernelArgs kernel_args = {args.logits.as<float>(),
                                        static_cast<const SlotSampling*>(args.slots.data()),
                                        args.bias_tokens.as<int32_t>(),
                                        args.bias_values.as<float>(),
                                        args.end_tokens.as<int32_t>(),
                                        args.counts.empty() ? nullptr : args.counts.as<int32_t>(),
                                        args.row_slot.as<int32_t>(),
                                        args.row_draft.as<int32_t>(),
                                        args.row_mask.as<int32_t>(),
                                        static_cast<const uint32_t*>(args.masks.data()),
                                        args.drafts.as<int32_t>(),
                                        args.output_rows.as<int32_t>(),
                                        args.positions.as<int32_t>(),
                                        args.tokens.as<int32_t>(),
                                        args.failures.as<int32_t>(),
                                        args.logprobs.as<float>(),
                                        args.top_tokens.as<int32_t>(),
                                        args.top_logprobs.as<float>(),
                                        args.logits.row_stride(),
                                        args.counts.row_stride(),
                                        args.top_tokens.row_stride(),
                                        args.top_logprobs.row_stride(),
                                        static_cast<int32_t>(args.bias_tokens.row_stride()),
                                        static_cast<int32_t>(args.bias_values.row_stride()),
                                        static_cast<int32_t>(args.end_tokens.row_stride()),
                                        static_cast<int32_t>(args.masks.row_stride()),
                                        static_cast<int32_t>(args.drafts.row_stride()),
                                        static_cast<int32_t>(args.decodable),
                                        static_cast<int32_t>(slice_of(cluster))};
  launch(stream, "sample_tokens", sample_tokens_kernel,
         {.grid = dim3(static_cast<unsigned>(cluster), static_cast<unsigned>(rows)),
          .block = dim3(kThreads),
          .shared_bytes = shared_bytes(cluster),
          .cluster = cluster},
         kernel_args);
}

}  // namespace ashlar
