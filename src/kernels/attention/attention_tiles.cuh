// What decode and prefill share beside arithmetic: where a sequence's rows are, how work is counted
// on the device, and how a tile of keys or values comes from pages into shared memory.
//
//   slot [column blocks][128 positions][64 elements], 128 bytes a line, 16-byte chunk c of
//   position p at c ^ (p % 8): what wgmma and ldmatrix read without bank conflicts
//
// Head sizes that are no multiple of 64 fill the rest of their last column block with zeros.
#ifndef ASHLAR_KERNELS_ATTENTION_ATTENTION_TILES_CUH_
#define ASHLAR_KERNELS_ATTENTION_ATTENTION_TILES_CUH_

#include "kernels/attention/attention_score.cuh"
#include "kernels/hopper/barrier.cuh"
#include "kernels/hopper/copy.cuh"

namespace ashlar {

constexpr int kColumnBlockBytes = kTilePositions * 128;
constexpr uint64_t kKeepInCache = 0x1000000000000000;  // the default policy

template <int kHeadSize>
constexpr int kColumnBlocks = (kHeadSize + 63) / 64;
template <int kHeadSize>
constexpr int kSlotBytes = kColumnBlocks<kHeadSize> * kColumnBlockBytes;

// The rows of a sequence in this step, and the positions [first, last] that any of them sees.
struct SequenceRowsRange {
  int32_t row;
  int32_t count;
};

__device__ __forceinline__ SequenceRowsRange sequence_rows(const AttentionCudaArgs& args, int s) {
  const int32_t row = args.sequence_starts[s];
  return {row, args.sequence_starts[s + 1] - row};
}

struct VisibleRange {
  int32_t first;
  int32_t last;
  __device__ int32_t first_tile() const { return first / kTilePositions; }
  __device__ int32_t tiles() const { return last / kTilePositions - first_tile() + 1; }
};

// Of rows [begin, end), whose positions ascend.
__device__ __forceinline__ VisibleRange visible_range(const AttentionCudaArgs& args, int32_t begin,
                                                      int32_t end) {
  return {first_visible(args.positions[begin], args.window), args.positions[end - 1]};
}

// ends[s] becomes the work of sequences 0 to s. All threads of the CTA; count(s) is the work of one
// sequence.
template <class Count>
__device__ void sum_work(int32_t* ends, int sequences, const Count& count) {
  for (int s = threadIdx.x; s < sequences; s += blockDim.x) ends[s] = count(s);
  __syncthreads();
  if (threadIdx.x < 32) {
    int32_t before = 0;
    for (int base = 0; base < sequences; base += 32) {
      const int s = base + static_cast<int>(threadIdx.x);
      int32_t sum = s < sequences ? ends[s] : 0;
      for (int distance = 1; distance < 32; distance *= 2) {
        const int32_t other = __shfl_up_sync(0xffffffffu, sum, distance);
        if (static_cast<int>(threadIdx.x) >= distance) sum += other;
      }
      if (s < sequences) ends[s] = before + sum;
      before += __shfl_sync(0xffffffffu, sum, 31);
    }
  }
  __syncthreads();
}

// The sequence that a piece of work belongs to: the first whose end lies beyond it.
__device__ __forceinline__ int sequence_of(const int32_t* ends, int sequences, int32_t work) {
  int low = 0;
  int high = sequences - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (ends[middle] > work) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Where a tile's keys or values come from: head is 0 to 2G - 1.
struct TileSource {
  const CUtensorMap* pages;
  const int32_t* table;  // of the sequence
  int32_t page_positions;
  int32_t page_heads;  // 2G
};

// Asks for the pages of a tile that hold visible positions; the others keep what the slot held. One
// whole warp.
template <int kHeadSize>
__device__ void load_tile(const TileSource& source, int32_t tile, const VisibleRange& visible,
                          int head, char* slot, hopper::Barrier* full) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int32_t begin = tile * kTilePositions;
  const int32_t first = max(begin, visible.first) / source.page_positions;
  const int32_t last = min(begin + kTilePositions - 1, visible.last) / source.page_positions;
  const int boxes = (last - first + 1) * kColumnBlocks<kHeadSize>;
  if (lane == 0) {
    hopper::barrier_expect(full, static_cast<uint32_t>(boxes * source.page_positions * 128));
  }
  __syncwarp();
  for (int i = lane; i < boxes; i += 32) {
    const int32_t page = first + i / kColumnBlocks<kHeadSize>;
    const int block = i % kColumnBlocks<kHeadSize>;
    const int32_t line = (source.table[page] * source.page_heads + head) * source.page_positions;
    char* to = slot + block * kColumnBlockBytes + (page * source.page_positions - begin) * 128;
    hopper::copy_box(to, source.pages, block * 64, line, full, kKeepInCache);
  }
}

// Writes zeros to the positions of a tile of values that no row sees: pages hold anything there,
// and 0 * NaN is NaN. Called by `threads` threads, which meet afterwards.
template <int kHeadSize>
__device__ void clear_unseen(char* slot, int32_t tile, const VisibleRange& visible, int thread,
                             int threads) {
  const int32_t begin = tile * kTilePositions;
  constexpr int kChunks = kColumnBlocks<kHeadSize> * kTilePositions * 8;
  for (int i = thread; i < kChunks; i += threads) {
    const int32_t position = begin + i / 8 % kTilePositions;
    if (position >= visible.first && position <= visible.last) continue;
    *reinterpret_cast<uint4*>(slot + i * 16) = make_uint4(0, 0, 0, 0);
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ bool has_unseen(int32_t tile, const VisibleRange& visible) {
  const int32_t begin = tile * kTilePositions;
  return begin < visible.first || begin + kTilePositions - 1 > visible.last;
}

// Rows outside every sequence.
__device__ inline void zero_padding_rows_of_grid(const AttentionCudaArgs& args, int columns) {
  const int32_t first = args.sequence_starts[0];
  const int32_t behind = args.sequence_starts[args.sequences];
  const int32_t padding = args.rows - (behind - first);
  for (int32_t i = blockIdx.x; i < padding; i += gridDim.x) {
    const int32_t row = i < first ? i : behind + i - first;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) args.y[row * args.y_stride + c] = 0;
  }
}

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_ATTENTION_ATTENTION_TILES_CUH_
