// Where a row is cut: the least preferred token that top-k, top-p or a list of alternatives still
// keeps, found without sorting a vocabulary.
//
// Round 0 is a histogram of tokens over their distance from the likeliest one, 64 bins an octave
// for 16 octaves and one for the rest. The bin in which the border lies is collected, a few hundred
// tokens of a flat row, and the first CTA finishes alone: it cuts the range of preferences that is
// left into 512 bins, again and again, until one warp can compare what remains. A bin that does not
// fit the list (many equal logits, say) is first cut the same way by the whole cluster. No two
// tokens have the same preference, so every loop ends; counts and masses are integers, so every
// border is exact.
#ifndef ASHLAR_SAMPLING_BORDER_CUDA_CUH_
#define ASHLAR_SAMPLING_BORDER_CUDA_CUH_

#include "sampling/cluster_row_cuda.cuh"

namespace ashlar {

namespace sampler {

constexpr int kLocalBins = kThreads;
constexpr int kTokensOfThread = kListRoom / kThreads;
constexpr int kListedBins = 10 * 64;  // of the likeliest tokens: 10 octaves
constexpr uint64_t kNoToken = ~0ull;  // after all tokens, in the order of preference

// The weights of a row: its maximum and scale.
struct Weighting {
  float max;
  float scale;
  // Tokens of weight 0 are counted, too: they can be among the alternatives that are reported, but
  // are never drawn.
  bool zeros = false;
};

// The bin of a token in round 0: ever further from the likeliest one, the rest in the last bin.
__device__ __forceinline__ int distance_bin(float octaves) {
  constexpr float kTail = kTailBin;
  return static_cast<int>(fminf(__fmul_rn(-octaves, kBinsPerOctave), kTail));
}

__device__ __forceinline__ bool is_in_bin(float octaves, int bin, bool zeros) {
  return distance_bin(octaves) == bin && (bin < kTailBin || zeros || weight_of(octaves) != 0);
}

// The first look at the weights of a row: sums, a histogram, and a list of the likeliest tokens in
// each CTA. Where the lists of all CTAs together are short and hold what is kept, no more of the
// cluster is needed.
struct Survey {
  const Message* messages;  // a list's length in the low half of c
  uint64_t mass;
  uint64_t count;  // tokens with a weight, or all
  uint64_t listed_mass;
  uint64_t listed;

  __device__ bool holds_mass(uint64_t target) const {
    return listed <= kListRoom && target <= listed_mass;
  }
  __device__ bool holds_count(uint64_t target) const {
    return listed <= kListRoom && target <= listed;
  }
};

// Most tokens of most rows are in the tail, where the border hardly ever is: they are added in
// registers, which costs a fraction of an addition to a bin.
__device__ inline Survey survey_row(ClusterRow& row, Weighting w) {
  Shared& shared = row.shared;
  if (threadIdx.x == 0) shared.list_count = 0;
  clear_bins(shared);
  Message tail = {0, 0};
  uint64_t listed_mass = 0;
  uint32_t others = 0;
  row.for_each([&](float x, uint32_t id) {
    const float octaves = octaves_of(x, w.max, w.scale);
    const uint64_t weight = weight_of(octaves);
    const int bin = distance_bin(octaves);
    if (bin >= kTailBin) {
      tail.a += weight;
      tail.b += w.zeros || weight != 0 ? 1 : 0;
      return;
    }
    add_to_bin(shared, bin, weight);
    if (bin >= kListedBins) {
      tail.c += weight;
      ++others;
      return;
    }
    listed_mass += weight;
    const uint32_t at = atomicAdd(&shared.list_count, 1u);
    if (at < kListRoom) shared.list[at] = preference(x, id);
  });
  listed_mass = block_reduce(listed_mass, shared, SumOf());
  tail.a = block_reduce(tail.a, shared, SumOf());
  tail.b = block_reduce(tail.b, shared, SumOf());
  tail.c = block_reduce(tail.c, shared, SumOf());
  const uint64_t unlisted = tail.b + block_reduce(others, shared, SumOf());
  if (threadIdx.x == 0) {
    shared.hist_low[kTailBin] = static_cast<uint32_t>(tail.a);
    shared.hist_high[kTailBin] = static_cast<uint32_t>(tail.a >> 32);
    shared.hist_count[kTailBin] = static_cast<uint32_t>(tail.b);
  }
  const Message* messages =
      row.exchange(listed_mass, tail.a + tail.c, unlisted << 32 | shared.list_count);
  Survey all = {messages, 0, 0, 0, 0};
  for (int c = 0; c < row.ctas; ++c) {
    all.listed_mass += messages[c].a;
    all.mass += messages[c].b;
    all.listed += messages[c].c & 0xffffffffu;
    all.count += messages[c].c >> 32;
  }
  all.mass += all.listed_mass;
  all.count += all.listed;
  return all;
}

// The part of the row in which the border still may be, as preferences from lo to hi.
struct Range {
  uint64_t lo;
  uint64_t hi;
  uint64_t count;  // of its tokens
  uint64_t mass_before;
  uint64_t count_before;

  __device__ bool holds(uint64_t preference) const { return preference >= lo && preference <= hi; }
  // Width of a bin as a power of two, such that the range has at most 2^bin_bits of them.
  __device__ int shift(int bin_bits) const {
    return max(0, 64 - __clzll(static_cast<long long>(hi - lo)) - bin_bits);
  }
  // Down to one of those bins; `at` counts from the beginning of this range.
  __device__ void narrow(const Located& at, int bin_shift) {
    lo += at.bin << bin_shift;
    const uint64_t rest = (1ull << bin_shift) - 1;
    if (hi - lo > rest) hi = lo + rest;
    count = at.bin_count;
    mass_before += at.mass_before;
    count_before += at.count_before;
  }
  __device__ uint64_t left_of(uint64_t target, Quantity quantity) const {
    return target - (quantity == Quantity::kMass ? mass_before : count_before);
  }
};

// From a bin of round 0 to the preferences in it.
__device__ inline Range range_of_bin(ClusterRow& row, Weighting w, const Located& at) {
  uint64_t lo = kNoToken;
  uint64_t hi = 0;
  row.for_each([&](float x, uint32_t id) {
    if (!is_in_bin(octaves_of(x, w.max, w.scale), static_cast<int>(at.bin), w.zeros)) return;
    const uint64_t p = preference(x, id);
    lo = MinOf()(lo, p);
    hi = MaxOf()(hi, p);
  });
  lo = block_reduce(lo, row.shared, MinOf());
  hi = block_reduce(hi, row.shared, MaxOf());
  const Message* messages = row.exchange(lo, hi);
  for (int c = 0; c < row.ctas; ++c) {
    lo = MinOf()(lo, messages[c].a);
    hi = MaxOf()(hi, messages[c].b);
  }
  return {lo, hi, at.bin_count, at.mass_before, at.count_before};
}

// Narrows a range, by the whole cluster, until its tokens fit the list.
__device__ inline void narrow_to_list(ClusterRow& row, Weighting w, Quantity quantity,
                                      uint64_t target, Range& range) {
  while (range.count > kListRoom) {
    const int shift = range.shift(10);
    clear_bins(row.shared);
    row.for_each([&](float x, uint32_t id) {
      const uint64_t p = preference(x, id);
      if (!range.holds(p)) return;
      add_to_bin(row.shared, static_cast<int>((p - range.lo) >> shift),
                 weight_of(octaves_of(x, w.max, w.scale)));
    });
    cg::this_cluster().sync();
    const Totals totals = merge_histograms(row, 1);
    range.narrow(locate(row, totals, 1, quantity, range.left_of(target, quantity)), shift);
  }
}

// Every CTA lists its tokens that `wanted` picks; the list of each is as long as its message says.
template <class Wanted>
__device__ const Message* collect(ClusterRow& row, const Wanted& wanted) {
  Shared& shared = row.shared;
  __syncthreads();
  if (threadIdx.x == 0) shared.list_count = 0;
  __syncthreads();
  row.for_each([&](float x, uint32_t id) {
    if (!wanted(x, id)) return;
    const uint32_t at = atomicAdd(&shared.list_count, 1u);
    if (at < kListRoom) shared.list[at] = preference(x, id);
  });
  __syncthreads();
  return row.exchange(0, 0, shared.list_count);
}

// The tokens of a CTA's threads; kNoToken where there is none.
struct ThreadTokens {
  uint64_t t[kTokensOfThread];
};

// All lists, spread over the threads of the CTA that asks. The lists must stay until a barrier.
__device__ inline ThreadTokens pull_lists(ClusterRow& row, const Message* messages) {
  ThreadTokens tokens;
#pragma unroll
  for (int i = 0; i < kTokensOfThread; ++i) {
    tokens.t[i] = kNoToken;
    uint32_t index = threadIdx.x + static_cast<uint32_t>(i) * kThreads;
    for (int c = 0; c < row.ctas; ++c) {
      const uint32_t length = static_cast<uint32_t>(messages[c].c);
      if (index < length) {
        tokens.t[i] = row.shared_of(c).list[index];
        break;
      }
      index -= length;
    }
  }
  return tokens;
}

// The order in which tokens are summed: of preference, or of ids (both halves exchanged).
struct ByPreference {
  static __device__ float logit(uint64_t token) { return preferred_logit(token); }
};
struct ById {
  static __device__ uint64_t exchanged(uint64_t token) { return token << 32 | token >> 32; }
  static __device__ float logit(uint64_t token) { return preferred_logit(exchanged(token)); }
};

// The end of the search by one CTA; the tokens of the range are spread over its threads.
template <class Order>
__device__ void narrow_locally(Shared& shared, Weighting w, Quantity quantity, uint64_t target,
                               const ThreadTokens& tokens, Range& range) {
  const int tid = static_cast<int>(threadIdx.x);
  while (range.count > kSmallList) {
    const int shift = range.shift(9);
    clear_bins(shared);
#pragma unroll
    for (const uint64_t p : tokens.t) {
      if (p == kNoToken || !range.holds(p)) continue;
      add_to_bin(shared, static_cast<int>((p - range.lo) >> shift),
                 weight_of(octaves_of(Order::logit(p), w.max, w.scale)));
    }
    __syncthreads();
    const Message mine = {mass_of_bin(shared, tid), shared.hist_count[tid]};
    const Message end = block_inclusive_sums(mine, shared);
    const bool mass = quantity == Quantity::kMass;
    const uint64_t left = range.left_of(target, quantity);
    const uint64_t reached = mass ? end.a : end.b;
    if (reached - (mass ? mine.a : mine.b) < left && left <= reached) {
      shared.located[0] = {static_cast<uint64_t>(tid), mine.b, end.a - mine.a, end.b - mine.b};
    }
    __syncthreads();
    const Located at = shared.located[0];
    range.narrow(at, shift);
  }
}

// The last comparison, of at most 32 tokens by one warp.
template <class Order>
__device__ Border compare_small(Shared& shared, Weighting w, Quantity quantity, uint64_t target,
                                const Range& range) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int count = static_cast<int>(range.count);
  const bool valid = lane < count;
  const uint64_t mine = valid ? shared.small_list[lane] : kNoToken;
  shared.small_weights[lane] =
      valid ? weight_of(octaves_of(Order::logit(mine), w.max, w.scale)) : 0;
  __syncwarp();
  uint64_t mass = range.mass_before;
  uint64_t tokens = range.count_before;
#pragma unroll 8
  for (int l = 0; l < count; ++l) {
    const bool before = shared.small_list[l] <= mine;
    mass += before ? shared.small_weights[l] : 0;
    tokens += before ? 1 : 0;
  }
  const bool reaches = valid && (quantity == Quantity::kMass ? mass : tokens) >= target;
  uint64_t border = reaches ? mine : kNoToken;
#pragma unroll
  for (int half = 16; half > 0; half /= 2) {
    border = MinOf()(border, __shfl_xor_sync(0xffffffffu, border, half));
  }
  const uint32_t owner = __ballot_sync(0xffffffffu, mine == border);
  return {border, __shfl_sync(0xffffffffu, mass, __ffs(static_cast<int>(owner)) - 1)};
}

// The token with which the quantity, summed in order over the tokens of this CTA's threads, first
// reaches the target. `range` says how many there are, and what comes before them.
template <class Order>
__device__ Border select_locally(Shared& shared, Weighting w, Quantity quantity, uint64_t target,
                                 const ThreadTokens& tokens, Range range) {
  uint64_t lo = kNoToken;
  uint64_t hi = 0;
#pragma unroll
  for (const uint64_t p : tokens.t) {
    lo = MinOf()(lo, p);
    if (p != kNoToken) hi = MaxOf()(hi, p);
  }
  range.lo = block_reduce(lo, shared, MinOf());
  range.hi = block_reduce(hi, shared, MaxOf());
  narrow_locally<Order>(shared, w, quantity, target, tokens, range);
  __syncthreads();
  if (threadIdx.x == 0) shared.list_count = 0;
  __syncthreads();
#pragma unroll
  for (const uint64_t p : tokens.t) {
    if (p != kNoToken && range.holds(p)) shared.small_list[atomicAdd(&shared.list_count, 1u)] = p;
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    const Border border = compare_small<Order>(shared, w, quantity, target, range);
    if (threadIdx.x == 0) shared.local_border = border;
  }
  __syncthreads();
  return shared.local_border;
}

// The token with which the quantity, summed in order of preference, first reaches the target;
// 1 <= target <= all. `totals` is of the histogram of round 0 with the same weighting.
__device__ inline Border find_border(ClusterRow& row, Weighting w, const Totals& totals,
                                     Quantity quantity, uint64_t target) {
  const Located at = locate(row, totals, 0, quantity, target);
  Range range = {0, kNoToken, at.bin_count, at.mass_before, at.count_before};
  const Message* messages = nullptr;
  if (at.bin_count > kListRoom) {
    range = range_of_bin(row, w, at);
    narrow_to_list(row, w, quantity, target, range);
    messages = collect(row, [&](float x, uint32_t id) { return range.holds(preference(x, id)); });
  } else {
    messages = collect(row, [&](float x, uint32_t) {
      return is_in_bin(octaves_of(x, w.max, w.scale), static_cast<int>(at.bin), w.zeros);
    });
  }
  if (row.rank == 0) {
    const ThreadTokens tokens = pull_lists(row, messages);
    const Border border =
        select_locally<ByPreference>(row.shared, w, quantity, target, tokens, range);
    if (static_cast<int>(threadIdx.x) < row.ctas) {
      row.shared_of(static_cast<int>(threadIdx.x)).border[row.parity] = border;
    }
  }
  cg::this_cluster().sync();
  const Border border = row.shared.border[row.parity];
  row.parity ^= 1;
  return border;
}

}  // namespace sampler

}  // namespace ashlar

#endif  // ASHLAR_SAMPLING_BORDER_CUDA_CUH_
