// Attention of sequences with few rows in a step: split KV, every SM at work whatever the lengths.
//
//   work       all tiles of (sequence, block of 8 (row, head) pairs, key head) in one line, cut
//   into
//              as many equal runs as there are CTAs; the cut is arithmetic on what the device reads
//   CTA        one warp copies tiles of 128 keys, then their values, through a ring of slots (192
//              KiB); 8 warps: scores [16 keys x 8 pairs] each, then outputs [16 elements x 8 pairs]
//   fold       a run that begins a row's tiles folds as it goes; other runs keep each tile's part
//              ([8 K] outputs, maximum, sum; 3 % of the bytes of a tile at 4 heads a group) and the
//              last CTA to arrive folds them in order. Nothing else is ever merged.
//
// Bytes: keys and values once, and parts. Limits: more than 8 pairs read keys and values again for
// each 8 (from L2). One launch at a time on a device: the arrival counters are module memory, zero
// between launches.
//
// Measured on an H200 (2026-12-01), 32 heads of 128, 8 of keys: one sequence of 640 positions 7.0
// us, of 8,192 21.2 us; 4 and 16 of 8,192 2,580 and 3,525 GB/s, of about 4,550. The copies are what
// limits it: without any arithmetic the same kernel takes as long (18.8 us; 3,064 and 3,519 GB/s).
// Tried and lost: the fold with all loads of a part in flight and work read before the predecessor
// ends (640 positions 7.9 us, 8,192 20.6; 2,856 and 3,380 GB/s); two CTAs a multiprocessor (2,499
// and 3,262 GB/s).
#include "device/launch_cuda.h"
#include "kernels/attention/attention_decode.cuh"
#include "kernels/hopper/dependent_launch.cuh"

namespace ashlar {

namespace {

using namespace attention_decode;

constexpr int kMaxCtas = 256;
constexpr int kConsumers = kWarps * 32;
constexpr int kRingBytes = 192 * 1024;
constexpr int kMaxSlots = 12;
constexpr int kConsumerBarrier = 1;

__device__ uint32_t arrivals[kMaxCtas];  // by the CTA whose run begins the tiles of a cut key

struct Shared {
  hopper::Barrier full[kMaxSlots];
  hopper::Barrier empty[kMaxSlots];
  float maxima[kWarps][kDecodePairs];
  uint16_t weights[kDecodePairs][kTilePositions + 8];  // bf16; 16 bytes more: no bank conflicts
  int32_t work_ends[kAttentionMaxSequences];
  uint32_t is_last;
};

template <int kHeadSize>
constexpr int kRingSlots = kRingBytes / kSlotBytes<kHeadSize>;

template <int kHeadSize>
__device__ void copy_tiles(const AttentionCudaArgs& args, const CUtensorMap* pages, char* ring,
                           Shared& shared, int32_t begin, int32_t end) {
  constexpr int kSlots = kRingSlots<kHeadSize>;
  int slot = 0;
  uint32_t parity = 1;
  for (int32_t work = begin; work < end;) {
    const Key key = key_of(args, shared.work_ends, work);
    const TileSource source = {pages, args.page_table + key.sequence * args.table_stride,
                               args.page_positions, 2 * args.kv_heads};
    const int32_t run_end = min(end, key.end);
    for (; work < run_end; ++work) {
      const int32_t tile = key.visible.first_tile() + work - key.begin;
      for (int values = 0; values < 2; ++values) {
        hopper::barrier_wait(&shared.empty[slot], parity);
        load_tile<kHeadSize>(source, tile, key.visible, key.head + values * args.kv_heads,
                             ring + slot * kSlotBytes<kHeadSize>, &shared.full[slot]);
        if (++slot == kSlots) {
          slot = 0;
          parity ^= 1;
        }
      }
    }
  }
}

__device__ __forceinline__ void load_matrices(uint32_t (&a)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&a)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(address)
               : "memory");
}

// Address of the 16-byte chunk `chunk` of a position in a slot.
__device__ __forceinline__ uint32_t chunk_address(uint32_t slot, int position, int chunk) {
  return slot + (chunk / 8) * kColumnBlockBytes + position * 128 +
         (((chunk % 8) ^ (position % 8)) * 16);
}

// Scores of 16 keys, those of this warp, with 8 pairs: keys g (0, 1) and g + 8 (2, 3).
template <int kHeadSize>
__device__ void score_keys(float (&scores)[4], const uint32_t (&queries)[kHeadSize / 16][2],
                           uint32_t slot, const Lane& at) {
  const int position = at.warp * 16 + at.lane % 16;
#pragma unroll
  for (int i = 0; i < 4; ++i) scores[i] = 0.0f;
#pragma unroll
  for (int k = 0; k < kHeadSize / 16; ++k) {
    uint32_t keys[4];
    load_matrices(keys, chunk_address(slot, position, 2 * k + at.lane / 16));
    mma_bf16(scores, keys, queries[k][0], queries[k][1]);
  }
}

// Scores to weights in shared memory, and the maximum of each pair; two meetings of all warps.
template <class Before>
__device__ void weigh(float (&scores)[4], float (&maximum)[2], const AttentionCudaArgs& args,
                      const int32_t (&first)[2], const int32_t (&last)[2], int32_t tile,
                      Shared& shared, const Lane& at, const Before& before_second_meeting) {
  const int key = at.warp * 16 + at.g;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int32_t position = tile * kTilePositions + key + i / 2 * 8;
    if (args.cap > 0.0f) scores[i] = capped_score(scores[i], args);
    const bool visible = position >= first[i % 2] && position <= last[i % 2];
    scores[i] = visible ? scores[i] : kNothingSeen;
  }
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    float m = fmaxf(scores[e], scores[e + 2]);
    for (int distance = 4; distance < 32; distance *= 2) {
      m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, distance));
    }
    if (at.g == 0) shared.maxima[at.warp][2 * at.q + e] = m;
  }
  hopper::named_sync(kConsumerBarrier, kConsumers);
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    float m = shared.maxima[0][2 * at.q + e];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) m = fmaxf(m, shared.maxima[w][2 * at.q + e]);
    maximum[e] = split_maximum(m, args.factor);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float weight = weight_of(scores[i], args.factor, maximum[i % 2]);
    shared.weights[2 * at.q + i % 2][key + i / 2 * 8] = __bfloat16_as_ushort(round_bf16(weight));
  }
  before_second_meeting();
  hopper::named_sync(kConsumerBarrier, kConsumers);
}

// Outputs of this warp's elements and, in every warp alike, the sums of the weights: one more chain
// with ones in the place of the values.
template <int kHeadSize>
__device__ void sum_values(Part<kHeadSize>& part, uint32_t slot, const Shared& shared,
                           const Lane& at) {
  const uint32_t ones[4] = {kTwoOnes, kTwoOnes, kTwoOnes, kTwoOnes};
  float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (auto& run : part.outputs) {
    for (float& output : run) output = 0.0f;
  }
  const int line = at.lane % 8 + at.lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < kTilePositions / 16; ++k) {
    const uint16_t* weights = &shared.weights[at.g][16 * k + 2 * at.q];
    const uint32_t b0 = *reinterpret_cast<const uint32_t*>(weights);
    const uint32_t b1 = *reinterpret_cast<const uint32_t*>(weights + 8);
    mma_bf16(sums, ones, b0, b1);
#pragma unroll
    for (int r = 0; r < Part<kHeadSize>::kRunsOfWarp; ++r) {
      const int run = at.warp + r * kWarps;
      if (run >= Part<kHeadSize>::kRuns) break;
      uint32_t values[4];
      load_matrices_transposed(values,
                               chunk_address(slot, 16 * k + line, 2 * run + at.lane / 8 % 2));
      mma_bf16(part.outputs[r], values, b0, b1);
    }
  }
  part.sum[0] = sums[0];
  part.sum[1] = sums[1];
}

template <int kHeadSize>
__device__ void fold_part(Part<kHeadSize>& state, const Part<kHeadSize>& split) {
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const SplitFold fold = fold_split(state.maximum[e], split.maximum[e]);
    state.sum[e] = folded_if_visible(state.sum[e], split.sum[e], fold);
#pragma unroll
    for (int r = 0; r < Part<kHeadSize>::kRunsOfWarp; ++r) {
      state.outputs[r][e] = folded_if_visible(state.outputs[r][e], split.outputs[r][e], fold);
      state.outputs[r][e + 2] =
          folded_if_visible(state.outputs[r][e + 2], split.outputs[r][e + 2], fold);
    }
  }
}

// Calls body(pair of 8, element of the head, value) for what this thread holds of a part.
template <int kHeadSize, class Body>
__device__ __forceinline__ void for_each_output(const Part<kHeadSize>& part, const Lane& at,
                                                int pairs, const Body& body) {
#pragma unroll
  for (int r = 0; r < Part<kHeadSize>::kRunsOfWarp; ++r) {
    const int run = at.warp + r * kWarps;
    if (run >= Part<kHeadSize>::kRuns) break;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int pair = 2 * at.q + i % 2;
      if (pair < pairs) body(pair, run * 16 + at.g + i / 2 * 8, part.outputs[r][i]);
    }
  }
}

template <int kHeadSize>
__device__ void store_part(const PartView<kHeadSize>& to, const Part<kHeadSize>& part,
                           const Lane& at, int pairs) {
  for_each_output<kHeadSize>(part, at, pairs, [&](int pair, int element, float value) {
    to.outputs(pair)[element] = value;
  });
  if (at.warp != 0 || at.g != 0) return;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    to.maximum(2 * at.q + e) = part.maximum[e];
    to.sum(2 * at.q + e) = part.sum[e];
  }
}

template <int kHeadSize>
__device__ void store_rows(const AttentionCudaArgs& args, const Key& key,
                           const Part<kHeadSize>& state, const Lane& at) {
  const float inverse[2] = {inverse_sum(state.sum[0]), inverse_sum(state.sum[1])};
  for_each_output<kHeadSize>(state, at, key.pairs, [&](int pair, int element, float value) {
    args.y[query_offset(args, key, pair, args.y_stride, kHeadSize) + element] =
        attention_output(value, inverse[pair % 2]);
  });
}

// All parts of a key, in order: the state of the CTA that began it, then each tile of the others.
// A thread folds two elements of a pair; parts are asked for eight at a time.
template <int kHeadSize>
__device__ void fold_parts(const AttentionCudaArgs& args, const Key& key, const WorkCut& cut,
                           int thread) {
  constexpr int kAhead = 8;
  const int32_t first_cta = cut.owner(key.begin);
  for (int i = thread; i < key.pairs * kHeadSize / 2; i += kConsumers) {
    const int pair = i / (kHeadSize / 2);
    const int element = i % (kHeadSize / 2) * 2;
    const PartView<kHeadSize> state = PartView<kHeadSize>::state(args, first_cta);
    float2 value = __ldcg(reinterpret_cast<const float2*>(state.outputs(pair) + element));
    float maximum = __ldcg(&state.maximum(pair));
    float sum = __ldcg(&state.sum(pair));
    int32_t cta = first_cta + 1;
    int32_t begin = cut.begin(cta);
    int32_t behind = cut.begin(cta + 1);
    for (int32_t work = begin; work < key.end;) {
      float2 values[kAhead];
      float maxima[kAhead];
      float sums[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j, ++work) {
        if (work == behind) {
          ++cta;
          begin = behind;
          behind = cut.begin(cta + 1);
        }
        maxima[j] = kNothingSeen;
        if (work >= key.end) continue;
        const PartView<kHeadSize> part = PartView<kHeadSize>::of_run(args, cta, work - begin);
        values[j] = __ldcg(reinterpret_cast<const float2*>(part.outputs(pair) + element));
        maxima[j] = __ldcg(&part.maximum(pair));
        sums[j] = __ldcg(&part.sum(pair));
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const SplitFold fold = fold_split(maximum, maxima[j]);
        sum = folded_if_visible(sum, sums[j], fold);
        value.x = folded_if_visible(value.x, values[j].x, fold);
        value.y = folded_if_visible(value.y, values[j].y, fold);
      }
    }
    const float inverse = inverse_sum(sum);
    uint16_t* y = args.y + query_offset(args, key, pair, args.y_stride, kHeadSize) + element;
    *reinterpret_cast<ushort2*>(y) =
        make_ushort2(attention_output(value.x, inverse), attention_output(value.y, inverse));
  }
}

// A run of a cut key is stored: the last of its CTAs to say so folds them all.
template <int kHeadSize>
__device__ void arrive(const AttentionCudaArgs& args, const Key& key, const WorkCut& cut,
                       Shared& shared, int thread) {
  __threadfence();
  hopper::named_sync(kConsumerBarrier, kConsumers);
  if (thread == 0) {
    const int32_t first_cta = cut.owner(key.begin);
    const uint32_t runs = cut.owner(key.end - 1) - first_cta + 1;
    const bool is_last = atomicAdd(&arrivals[first_cta], 1u) == runs - 1;
    if (is_last) arrivals[first_cta] = 0;
    shared.is_last = is_last;
  }
  hopper::named_sync(kConsumerBarrier, kConsumers);
  if (shared.is_last == 0) return;
  __threadfence();
  fold_parts<kHeadSize>(args, key, cut, thread);
}

// What a thread needs of the pairs of a key: the queries of pair g as the instruction's B operand,
// and what pairs 2 q and 2 q + 1 see.
template <int kHeadSize>
struct Pairs {
  uint32_t queries[kHeadSize / 16][2];
  int32_t first[2];
  int32_t last[2];

  __device__ Pairs(const AttentionCudaArgs& args, const Key& key, const Lane& at) {
    const bool valid = at.g < key.pairs;
    const uint16_t* q =
        args.q + query_offset(args, key, valid ? at.g : 0, args.q_stride, kHeadSize) + 2 * at.q;
#pragma unroll
    for (int k = 0; k < kHeadSize / 16; ++k) {
      queries[k][0] = valid ? *reinterpret_cast<const uint32_t*>(q + 16 * k) : 0;
      queries[k][1] = valid ? *reinterpret_cast<const uint32_t*>(q + 16 * k + 8) : 0;
    }
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int32_t pair = key.pair + 2 * at.q + e;
      const bool exists = 2 * at.q + e < key.pairs;
      last[e] = exists ? args.positions[key.rows.row + pair / args.group] : -1;
      first[e] = exists ? first_visible(last[e], args.window) : 0;
    }
  }
};

template <int kHeadSize>
__device__ void compute_tiles(const AttentionCudaArgs& args, char* ring, Shared& shared,
                              const WorkCut& cut, int32_t begin, int32_t end) {
  constexpr int kSlots = kRingSlots<kHeadSize>;
  const int thread = static_cast<int>(threadIdx.x);
  const Lane at = {thread / 32, thread % 32, thread % 32 / 4, thread % 4};
  int slot = 0;
  uint32_t parity = 0;
  const auto release = [&] {
    __syncwarp();
    if (at.lane == 0) hopper::barrier_arrive(&shared.empty[slot]);
    if (++slot == kSlots) {
      slot = 0;
      parity ^= 1;
    }
  };
  for (int32_t work = begin; work < end;) {
    const Key key = key_of(args, shared.work_ends, work);
    const Pairs<kHeadSize> pairs(args, key, at);
    const int32_t run_begin = work;
    const int32_t run_end = min(end, key.end);
    Part<kHeadSize> state = {{}, {kNothingSeen, kNothingSeen}, {}};
    for (; work < run_end; ++work) {
      const int32_t tile = key.visible.first_tile() + work - key.begin;
      Part<kHeadSize> split;
      float scores[4];
      hopper::barrier_wait(&shared.full[slot], parity);
      score_keys<kHeadSize>(scores, pairs.queries,
                            hopper::shared_address(ring + slot * kSlotBytes<kHeadSize>), at);
      release();
      char* values = ring + slot * kSlotBytes<kHeadSize>;
      weigh(scores, split.maximum, args, pairs.first, pairs.last, tile, shared, at, [&] {
        hopper::barrier_wait(&shared.full[slot], parity);
        if (has_unseen(tile, key.visible)) {
          clear_unseen<kHeadSize>(values, tile, key.visible, thread, kConsumers);
        }
      });
      sum_values<kHeadSize>(split, hopper::shared_address(values), shared, at);
      release();
      if (run_begin == key.begin) {
        fold_part<kHeadSize>(state, split);
      } else {
        store_part<kHeadSize>(PartView<kHeadSize>::of_run(args, blockIdx.x, work - run_begin),
                              split, at, key.pairs);
      }
    }
    if (run_begin == key.begin && run_end == key.end) {
      store_rows<kHeadSize>(args, key, state, at);
      continue;
    }
    if (run_begin == key.begin) {
      store_part<kHeadSize>(PartView<kHeadSize>::state(args, blockIdx.x), state, at, key.pairs);
    }
    arrive<kHeadSize>(args, key, cut, shared, thread);
  }
}

template <int kHeadSize>
__global__ void __launch_bounds__(kConsumers + 32, 1)
    attention_decode(const __grid_constant__ CUtensorMap pages, const AttentionCudaArgs args) {
  extern __shared__ __align__(1024) char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory + kRingBytes);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kRingSlots<kHeadSize>; ++i) {
      hopper::barrier_init(&shared.full[i], 1);
      hopper::barrier_init(&shared.empty[i], kWarps);
    }
    hopper::barrier_init_fence();
    hopper::prefetch_map(&pages);
  }
  wait_for_predecessor();
  let_successor_start();
  sum_work(shared.work_ends, args.sequences, [&](int s) { return work_of_sequence(args, s); });
  const WorkCut cut(shared.work_ends[args.sequences - 1], gridDim.x);
  const int32_t cta = static_cast<int32_t>(blockIdx.x);
  if (cta < cut.ctas) {
    if (threadIdx.x >= kConsumers) {
      copy_tiles<kHeadSize>(args, &pages, memory, shared, cut.begin(cta), cut.begin(cta + 1));
    } else {
      compute_tiles<kHeadSize>(args, memory, shared, cut, cut.begin(cta), cut.begin(cta + 1));
    }
  }
  if (args.zero_padding) {
    zero_padding_rows_of_grid(args, args.kv_heads * args.group * kHeadSize);
  }
}

template <int kHeadSize>
void launch_size(Stream& stream, const CUtensorMap& pages, const AttentionCudaArgs& args,
                 int ctas) {
  const LaunchShape shape = {dim3(ctas), dim3(kConsumers + 32), kRingBytes + sizeof(Shared)};
  launch(stream, "attention", attention_decode<kHeadSize>, shape, pages, args);
}

}  // namespace

void launch_attention_decode(Stream& stream, const CUtensorMap& pages,
                             const AttentionCudaArgs& args, int head_size, int ctas) {
  CHECK(ctas <= kMaxCtas);
  switch (head_size) {
    case 64:
      return launch_size<64>(stream, pages, args, ctas);
    case 96:
      return launch_size<96>(stream, pages, args, ctas);
    case 128:
      return launch_size<128>(stream, pages, args, ctas);
    default:
      CHECK(head_size == 256);
      return launch_size<256>(stream, pages, args, ctas);
  }
}

}  // namespace ashlar
