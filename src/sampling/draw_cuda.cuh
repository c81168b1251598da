// What top-k and top-p keep of a row, and the draw from it. A row whose likeliest tokens hold all
// that is kept is finished by one CTA from their lists; any other takes the cluster once more.
#ifndef ASHLAR_SAMPLING_DRAW_CUDA_CUH_
#define ASHLAR_SAMPLING_DRAW_CUDA_CUH_

#include "sampling/border_cuda.cuh"

namespace ashlar {

namespace sampler {

__device__ inline uint64_t mass_target(double top_p, uint64_t mass) {
  const double target = ceil(__dmul_rn(top_p, __ull2double_rn(mass)));
  return min(max(static_cast<uint64_t>(target), uint64_t{1}), mass);
}

// What top-k and top-p cut from a row, once the survey is known.
struct Cuts {
  bool k;
  bool p;
  uint64_t top_k;
  double top_p;

  __device__ bool any() const { return k || p; }
  // Whether the lists hold all that is kept. What top-p keeps of the first k is among them.
  __device__ bool held_by(const Survey& survey) const {
    return k ? survey.holds_count(top_k) : survey.holds_mass(mass_target(top_p, survey.mass));
  }
};

// The last token that is kept; `find` finds a border by quantity and target.
template <class Find>
__device__ uint64_t cut(const Cuts& cuts, uint64_t mass, const Find& find) {
  Border kept = {kNoToken, mass};
  if (cuts.k) kept = find(Quantity::kCount, cuts.top_k);
  if (cuts.p) kept = find(Quantity::kMass, mass_target(cuts.top_p, kept.mass));
  return kept.preference;
}

// Cuts and draws from the lists alone. The first CTA does it and returns the token in its first
// thread, all others return -1.
__device__ inline int32_t draw_from_lists(ClusterRow& row, Weighting w, const Survey& survey,
                                          const Cuts& cuts, uint64_t least, uint64_t bits) {
  Shared& shared = row.shared;
  ThreadTokens tokens = {};
  if (row.rank == 0) tokens = pull_lists(row, survey.messages);
  cg::this_cluster().sync();  // the lists of the others were read
  if (row.rank != 0) return -1;
  const uint64_t border = cut(cuts, survey.mass, [&](Quantity quantity, uint64_t target) {
    return select_locally<ByPreference>(shared, w, quantity, target, tokens,
                                        {0, kNoToken, survey.listed, 0, 0});
  });
  uint64_t mass = 0;
  uint64_t count = 0;
#pragma unroll
  for (uint64_t& p : tokens.t) {
    const uint64_t weight = p <= border && p != kNoToken
                                ? weight_of(octaves_of(preferred_logit(p), w.max, w.scale))
                                : 0;
    const bool kept = weight != 0 && weight >= least;
    mass += kept ? weight : 0;
    count += kept ? 1 : 0;
    p = kept ? ById::exchanged(p) : kNoToken;
  }
  mass = block_reduce(mass, shared, SumOf());
  count = block_reduce(count, shared, SumOf());
  const Border drawn = select_locally<ById>(shared, w, Quantity::kMass, __umul64hi(bits, mass) + 1,
                                            tokens, {0, kNoToken, count, 0, 0});
  return threadIdx.x == 0 ? static_cast<int32_t>(drawn.preference >> 32) : -1;
}

// The token whose kept weights, summed in order of ids, first exceed bits * sum / 2^64. Returned by
// one thread of the cluster; the others get -1.
__device__ inline int32_t draw(ClusterRow& row, Weighting w, uint64_t border, uint64_t least,
                               uint64_t bits) {
  Shared& shared = row.shared;
  const float border_x = border == kNoToken ? -INFINITY : preferred_logit(border);
  const uint32_t border_id = static_cast<uint32_t>(border);
  const auto weight_at = [&](int i) -> uint64_t {
    if (i >= row.count) return 0;
    const float x = row.x[i];
    const bool kept =
        x > border_x || (x == border_x && row.first + static_cast<uint32_t>(i) <= border_id);
    if (!kept) return 0;  // most tokens of a row that is cut; a warp of them skips the rest
    const uint64_t weight = weight_of(octaves_of(x, w.max, w.scale));
    return weight >= least ? weight : 0;
  };
  // Neighbouring elements to a thread, an odd number of them: no two lanes meet in a bank.
  const int run = (row.count + kThreads - 1) / kThreads | 1;
  const int begin = static_cast<int>(threadIdx.x) * run;
  uint64_t sum = 0;
#pragma unroll 4
  for (int i = begin; i < begin + run; ++i) sum += weight_at(i);
  const uint64_t end = block_inclusive_sum(sum, shared);
  if (threadIdx.x == kThreads - 1) shared.found[0] = end;
  __syncthreads();
  const Message* messages = row.exchange(shared.found[0], 0);
  uint64_t all = 0;
  uint64_t before = 0;
  for (int c = 0; c < row.ctas; ++c) {
    if (c < row.rank) before += messages[c].a;
    all += messages[c].a;
  }
  const uint64_t target = __umul64hi(bits, all);
  if (target < before || target - before >= messages[row.rank].a) return -1;
  const uint64_t left = target - before;
  if (end - sum <= left && left < end) {
    shared.found[0] = static_cast<uint64_t>(begin);
    shared.found[1] = left - (end - sum);
  }
  __syncthreads();
  if (threadIdx.x >= 32) return -1;
  uint64_t rest = shared.found[1];
  for (int i = static_cast<int>(shared.found[0] + threadIdx.x);; i += 32) {
    const uint64_t weight = weight_at(i);
    const uint64_t to = warp_inclusive_sum(weight);
    const uint64_t chunk = __shfl_sync(0xffffffffu, to, 31);
    if (rest < chunk) {
      return to - weight <= rest && rest < to ? static_cast<int32_t>(row.first) + i : -1;
    }
    rest -= chunk;
  }
}

}  // namespace sampler

}  // namespace ashlar

#endif  // ASHLAR_SAMPLING_DRAW_CUDA_CUH_
