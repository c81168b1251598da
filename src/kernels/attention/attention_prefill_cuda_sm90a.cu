// Attention of sequences with many rows in a step.
//
//   item       128 (row, head of a group) pairs of one key head, all key tiles that they see; items
//              go from long to short, forth and back over the CTAs of one wave
//   CTA        one warp copies tiles of 128 keys and of their values through a ring of slots; two
//              warpgroups of 64 pairs each: scores [64 x 128] in registers, weights as the A
//              operand
//   fold       every tile's part starts from zero and is folded into the row, as in decode
//
//   registers  scores 64, then weights 32; a part of K/2 (head size 256: 32 at a time); outputs K/2
//
// Bytes: queries once; keys and values once an item, mostly from L2. Limits: a NaN among the values
// of an item's later rows reaches its earlier ones (decode keeps them apart only by position).
//
// Measured on an H200 (2026-12-01), causal, 32 heads of 128, 8 of keys: 349 TFLOP/s at 2,048
// positions, 506 at 8,192, 544 at 16,384 (cuDNN 405, 590, 573 on such a device). Tried and lost:
// queries by tensor map and the next tile's scores beside this one's outputs (371, 483, 501).
#include "device/launch_cuda.h"
#include "kernels/attention/attention_tiles.cuh"
#include "kernels/attention/attention_wgmma.cuh"
#include "kernels/hopper/dependent_launch.cuh"

namespace ashlar {

namespace {

constexpr int kPairs = 128;  // of an item
constexpr int kGroups = 2;   // warpgroups that compute
constexpr int kThreads = 128 * (kGroups + 1);
constexpr int kMemoryBytes = 192 * 1024;  // queries and slots
constexpr int kMaxSlots = 11;
constexpr int kClearBarrier = 1;  // both computing warpgroups
constexpr int kGroupBarrier = 2;  // and the next: one warpgroup

struct Shared {
  hopper::Barrier full[kMaxSlots];
  hopper::Barrier empty[kMaxSlots];
  int32_t work_ends[kAttentionMaxSequences];
};

// Queries lie as a tile of keys does: [column blocks][128 pairs][64 elements], swizzled.
template <int kHeadSize>
constexpr int kRingSlots = (kMemoryBytes - kSlotBytes<kHeadSize>) / kSlotBytes<kHeadSize>;

struct Item {
  int32_t sequence;
  int32_t head;            // of keys
  SequenceRowsRange rows;  // of the item
  VisibleRange visible;
  int32_t first_row_last;  // the last position that the item's first row sees
  int32_t last_row_first;  // the first that its last row sees
};

__device__ int32_t items_of_sequence(const AttentionCudaArgs& args, int s) {
  const int32_t count = sequence_rows(args, s).count;
  if (count * args.group <= args.few_pairs) return 0;
  const int32_t rows_of_item = kPairs / args.group;
  return (count + rows_of_item - 1) / rows_of_item * args.kv_heads;
}

// Which item a CTA takes in a round; -1: none.
__device__ int32_t item_index(int32_t round, int32_t items) {
  const int32_t ctas = static_cast<int32_t>(gridDim.x);
  const int32_t cta = static_cast<int32_t>(blockIdx.x);
  const int32_t index = round * ctas + (round % 2 == 0 ? cta : ctas - 1 - cta);
  return index < items ? index : -1;
}

__device__ Item item_at(const AttentionCudaArgs& args, const int32_t* ends, int32_t index) {
  Item item;
  item.sequence = sequence_of(ends, args.sequences, index);
  const int32_t first = item.sequence == 0 ? 0 : ends[item.sequence - 1];
  const SequenceRowsRange rows = sequence_rows(args, item.sequence);
  const int32_t rows_of_item = kPairs / args.group;
  const int32_t runs = (ends[item.sequence] - first) / args.kv_heads;
  const int32_t begin = (runs - 1 - (index - first) / args.kv_heads) * rows_of_item;
  item.head = (index - first) % args.kv_heads;
  item.rows = {rows.row + begin, min(rows_of_item, rows.count - begin)};
  const int32_t last_row = item.rows.row + item.rows.count - 1;
  item.visible = visible_range(args, item.rows.row, last_row + 1);
  item.first_row_last = args.positions[item.rows.row];
  item.last_row_first = first_visible(item.visible.last, args.window);
  return item;
}

struct Ring {
  int slot = 0;
  uint32_t parity;
  template <int kSlots>
  __device__ __forceinline__ void next() {
    if (++slot == kSlots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

template <int kHeadSize>
__device__ void copy_items(const AttentionCudaArgs& args, const CUtensorMap* pages, char* slots,
                           Shared& shared) {
  const int32_t items = shared.work_ends[args.sequences - 1];
  Ring ring = {0, 1};
  for (int32_t round = 0;; ++round) {
    const int32_t index = item_index(round, items);
    if (index < 0) {
      if (round * static_cast<int32_t>(gridDim.x) >= items) return;
      continue;
    }
    const Item item = item_at(args, shared.work_ends, index);
    const TileSource source = {pages, args.page_table + item.sequence * args.table_stride,
                               args.page_positions, 2 * args.kv_heads};
    const int32_t behind = item.visible.first_tile() + item.visible.tiles();
    for (int32_t tile = item.visible.first_tile(); tile < behind; ++tile) {
      for (int values = 0; values < 2; ++values) {
        hopper::barrier_wait(&shared.empty[ring.slot], ring.parity);
        load_tile<kHeadSize>(source, tile, item.visible, item.head + values * args.kv_heads,
                             slots + ring.slot * kSlotBytes<kHeadSize>, &shared.full[ring.slot]);
        ring.next<kRingSlots<kHeadSize>>();
      }
    }
  }
}

// The thread's place: warpgroup, thread in it, and the two rows of its accumulators.
struct Place {
  int group;
  int thread;
  int q;        // columns 8 j + 2 q (+ 1)
  int pair[2];  // of the item
};

// What the two rows of a thread have gathered.
template <int kHeadSize>
struct Rows {
  static constexpr int kPartColumns = kHeadSize > 128 ? 64 : kHeadSize;
  static constexpr int kParts = kHeadSize / kPartColumns;
  float outputs[kParts][kPartColumns / 2];
  float maximum[2];
  float sum[2];
  int32_t first[2];  // visible positions
  int32_t last[2];
};

// The 64 queries of a warpgroup into shared memory; pairs without a row are zeros.
template <int kHeadSize>
__device__ void load_queries(const AttentionCudaArgs& args, const Item& item, char* queries,
                             const Place& at) {
  constexpr int kChunks = kHeadSize / 8;
  hopper::named_sync(kGroupBarrier + at.group, 128);  // nobody reads the last item's any more
  for (int i = at.thread; i < 64 * kChunks; i += 128) {
    const int pair = at.group * 64 + i / kChunks;
    const int chunk = i % kChunks;
    const int row = pair / args.group;
    uint4 value = make_uint4(0, 0, 0, 0);
    if (row < item.rows.count) {
      const int64_t column = (item.head * args.group + pair % args.group) * kHeadSize + chunk * 8;
      value =
          *reinterpret_cast<const uint4*>(args.q + (item.rows.row + row) * args.q_stride + column);
    }
    char* to = queries + chunk / 8 * kColumnBlockBytes + pair * 128 + (chunk % 8 ^ pair % 8) * 16;
    *reinterpret_cast<uint4*>(to) = value;
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  hopper::named_sync(kGroupBarrier + at.group, 128);
}

template <int kHeadSize>
__device__ __forceinline__ void score_tile(float (&scores)[64], uint64_t queries, uint64_t keys) {
  hopper::hold_accumulators(scores);
  hopper::wgmma_fence();
#pragma unroll
  for (int k = 0; k < kHeadSize / 16; ++k) {
    const uint64_t step = k / 4 * (kColumnBlockBytes >> 4) + k % 4 * hopper::kOperandStep;
    hopper::Wgmma<kTilePositions>::run(scores, queries + step, keys + step, k > 0);
  }
  hopper::wgmma_commit();
  hopper::wgmma_wait<0>();
  hopper::hold_accumulators(scores);
}

template <int kHeadSize>
__device__ __forceinline__ void mask_scores(float (&scores)[64], const Rows<kHeadSize>& rows,
                                            int32_t tile, const Place& at) {
  const int32_t begin = tile * kTilePositions + 2 * at.q;
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    const int32_t position = begin + i / 4 * 8 + i % 2;
    const int row = i / 2 % 2;
    const bool visible = position >= rows.first[row] && position <= rows.last[row];
    scores[i] = visible ? scores[i] : kNothingSeen;
  }
}

// Scores to weights, as the A operand for 16 positions each, with maxima and sums of the tile.
__device__ __forceinline__ void weigh_scores(uint32_t (&weights)[8][4], float (&maximum)[2],
                                             float (&sum)[2], const float (&scores)[64],
                                             float factor) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float m = fmaxf(scores[2 * row], scores[2 * row + 1]);
#pragma unroll
    for (int i = 4; i < 64; i += 4) {
      m = fmaxf(m, fmaxf(scores[i + 2 * row], scores[i + 2 * row + 1]));
    }
    m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
    m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
    maximum[row] = split_maximum(m, factor);
  }
  float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int k = 0; k < 8; ++k) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float m = maximum[j % 2];
      weights[k][j] = round_bf16_pair(weight_of(scores[8 * k + 2 * j], factor, m),
                                      weight_of(scores[8 * k + 2 * j + 1], factor, m));
    }
    mma_bf16(sums, weights[k], kTwoOnes, kTwoOnes);
  }
  sum[0] = sums[0];
  sum[1] = sums[2];
}

template <int kColumns>
__device__ __forceinline__ void sum_values(float (&part)[kColumns / 2],
                                           const uint32_t (&weights)[8][4], uint64_t values) {
  hopper::hold_accumulators(part);
  hopper::wgmma_fence();
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    WgmmaWeights<kColumns>::run(part, weights[k], values + k * kValuesStep, k > 0);
  }
  hopper::wgmma_commit();
  hopper::wgmma_wait<0>();
  hopper::hold_accumulators(part);
}

template <int kHeadSize, bool kMasked>
__device__ __forceinline__ void fold_rows(Rows<kHeadSize>& rows, const SplitFold (&folds)[2],
                                          float (&outputs)[Rows<kHeadSize>::kPartColumns / 2],
                                          const float (&part)[Rows<kHeadSize>::kPartColumns / 2]) {
#pragma unroll
  for (int i = 0; i < Rows<kHeadSize>::kPartColumns / 2; ++i) {
    const SplitFold& fold = folds[i / 2 % 2];
    outputs[i] =
        kMasked ? folded_if_visible(outputs[i], part[i], fold) : folded(outputs[i], part[i], fold);
  }
}

template <int kHeadSize, bool kCapped>
struct Computer {
  const AttentionCudaArgs& args;
  char* queries;
  char* slots;
  Shared& shared;
  Place at;
  Ring ring;

  __device__ __forceinline__ char* slot() const {
    return slots + ring.slot * kSlotBytes<kHeadSize>;
  }
  __device__ __forceinline__ void wait_full() {
    hopper::barrier_wait(&shared.full[ring.slot], ring.parity);
  }
  __device__ __forceinline__ void release() {
    if (at.thread % 32 == 0) hopper::barrier_arrive(&shared.empty[ring.slot]);
    ring.next<kRingSlots<kHeadSize>>();
  }

  template <bool kMasked>
  __device__ __forceinline__ void take_tile(Rows<kHeadSize>& rows, const Item& item, int32_t tile) {
    constexpr int kColumns = Rows<kHeadSize>::kPartColumns;
    float scores[64];
    wait_full();
    score_tile<kHeadSize>(scores, hopper::wgmma_operand(queries + at.group * 64 * 128),
                          hopper::wgmma_operand(slot()));
    release();
    if constexpr (kCapped) {
#pragma unroll
      for (float& score : scores) score = capped_score(score, args);
    }
    if constexpr (kMasked) mask_scores<kHeadSize>(scores, rows, tile, at);
    uint32_t weights[8][4];
    float maximum[2];
    float sum[2];
    weigh_scores(weights, maximum, sum, scores, args.factor);
    wait_full();
    if (kMasked && has_unseen(tile, item.visible)) {
      clear_unseen<kHeadSize>(slot(), tile, item.visible, at.group * 128 + at.thread, 256);
      hopper::named_sync(kClearBarrier, 256);
    }
    SplitFold folds[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      folds[row] = fold_split(rows.maximum[row], maximum[row]);
      rows.sum[row] = folded_if_visible(rows.sum[row], sum[row], folds[row]);
    }
#pragma unroll
    for (int p = 0; p < Rows<kHeadSize>::kParts; ++p) {
      float part[kColumns / 2];
      const char* values = slot() + p * (kColumns / 64) * kColumnBlockBytes;
      sum_values<kColumns>(part, weights, values_operand(values, kColumnBlockBytes));
      if (p == Rows<kHeadSize>::kParts - 1) release();
      fold_rows<kHeadSize, kMasked>(rows, folds, rows.outputs[p], part);
    }
  }

  __device__ void begin_rows(Rows<kHeadSize>& rows, const Item& item) {
#pragma unroll
    for (auto& part : rows.outputs) {
      for (float& output : part) output = 0.0f;
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      rows.maximum[row] = kNothingSeen;
      rows.sum[row] = 0.0f;
      const int32_t index = at.pair[row] / args.group;
      const bool exists = index < item.rows.count;
      rows.last[row] = exists ? args.positions[item.rows.row + index] : -1;
      rows.first[row] = exists ? first_visible(rows.last[row], args.window) : 0;
    }
  }

  __device__ void store_rows(const Rows<kHeadSize>& rows, const Item& item) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int32_t index = at.pair[row] / args.group;
      if (index >= item.rows.count) continue;
      const float inverse = inverse_sum(rows.sum[row]);
      const int64_t column =
          (item.head * args.group + at.pair[row] % args.group) * kHeadSize + 2 * at.q;
      uint16_t* y = args.y + (item.rows.row + index) * args.y_stride + column;
#pragma unroll
      for (int p = 0; p < Rows<kHeadSize>::kParts; ++p) {
#pragma unroll
        for (int j = 0; j < Rows<kHeadSize>::kPartColumns / 8; ++j) {
          const float* pair = &rows.outputs[p][4 * j + 2 * row];
          *reinterpret_cast<ushort2*>(y + p * Rows<kHeadSize>::kPartColumns + 8 * j) =
              make_ushort2(attention_output(pair[0], inverse), attention_output(pair[1], inverse));
        }
      }
    }
  }

  __device__ void compute_items() {
    const int32_t items = shared.work_ends[args.sequences - 1];
    for (int32_t round = 0; round * static_cast<int32_t>(gridDim.x) < items; ++round) {
      const int32_t index = item_index(round, items);
      if (index < 0) continue;
      const Item item = item_at(args, shared.work_ends, index);
      Rows<kHeadSize> rows;
      load_queries<kHeadSize>(args, item, queries, at);
      begin_rows(rows, item);
      const int32_t behind = item.visible.first_tile() + item.visible.tiles();
      for (int32_t tile = item.visible.first_tile(); tile < behind; ++tile) {
        const int32_t begin = tile * kTilePositions;
        const bool masked =
            begin < item.last_row_first || begin + kTilePositions - 1 > item.first_row_last;
        if (masked) {
          take_tile<true>(rows, item, tile);
        } else {
          take_tile<false>(rows, item, tile);
        }
      }
      store_rows(rows, item);
    }
  }
};

template <int kHeadSize, bool kCapped>
__global__ void __launch_bounds__(kThreads, 1)
    attention_prefill(const __grid_constant__ CUtensorMap pages, const AttentionCudaArgs args) {
  extern __shared__ __align__(1024) char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory + kMemoryBytes);
  char* slots = memory + kSlotBytes<kHeadSize>;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kRingSlots<kHeadSize>; ++i) {
      hopper::barrier_init(&shared.full[i], 1);
      hopper::barrier_init(&shared.empty[i], kGroups * 4);
    }
    hopper::barrier_init_fence();
    hopper::prefetch_map(&pages);
  }
  wait_for_predecessor();
  let_successor_start();
  sum_work(shared.work_ends, args.sequences, [&](int s) { return items_of_sequence(args, s); });
  if (args.zero_padding) {
    zero_padding_rows_of_grid(args, args.kv_heads * args.group * kHeadSize);
  }
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (group == kGroups) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x % 128 < 32) copy_items<kHeadSize>(args, &pages, slots, shared);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int thread = static_cast<int>(threadIdx.x) % 128;
    const int pair = group * 64 + thread / 32 * 16 + thread % 32 / 4;
    Computer<kHeadSize, kCapped> computer = {
        args, memory, slots, shared, {group, thread, thread % 4, {pair, pair + 8}}, {0, 0}};
    computer.compute_items();
  }
}

template <int kHeadSize>
void launch_size(Stream& stream, const CUtensorMap& pages, const AttentionCudaArgs& args,
                 int ctas) {
  const LaunchShape shape = {dim3(ctas), dim3(kThreads), kMemoryBytes + sizeof(Shared)};
  if (args.cap > 0.0f) {
    launch(stream, "attention", attention_prefill<kHeadSize, true>, shape, pages, args);
  } else {
    launch(stream, "attention", attention_prefill<kHeadSize, false>, shape, pages, args);
  }
}

}  // namespace

void launch_attention_prefill(Stream& stream, const CUtensorMap& pages,
                              const AttentionCudaArgs& args, int head_size, int ctas) {
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
