// How decode attention's work is cut and what its parts are: the line of tiles of all keys, runs of
// it, and a part in registers and in scratch. What is computed is in
// attention_decode_cuda_sm90a.cu.
#ifndef ASHLAR_KERNELS_ATTENTION_ATTENTION_DECODE_CUH_
#define ASHLAR_KERNELS_ATTENTION_ATTENTION_DECODE_CUH_

#include "kernels/attention/attention_tiles.cuh"

namespace ashlar::attention_decode {

constexpr int kWarps = 8;  // that compute

// Runs of nearly equal length: CTA i has [begin(i), begin(i + 1)).
struct WorkCut {
  int32_t ctas;
  int32_t length;
  int32_t longer;  // CTAs with one more

  __device__ WorkCut(int32_t work, int32_t most_ctas)
      : ctas(min(work, most_ctas)),
        length(ctas > 0 ? work / ctas : 0),
        longer(work - length * ctas) {}
  __device__ int32_t begin(int32_t cta) const { return cta * length + min(cta, longer); }
  __device__ int32_t owner(int32_t work) const {
    const int32_t edge = longer * (length + 1);
    return work < edge ? work / (length + 1) : longer + (work - edge) / length;
  }
};

// All tiles of one (sequence, key head, block of pairs), which lie side by side in the work.
struct Key {
  int32_t begin;  // in the work
  int32_t end;
  int32_t sequence;
  int32_t head;   // of keys
  int32_t pair;   // the first of the block: row * group + head of the group
  int32_t pairs;  // 1 to 8
  SequenceRowsRange rows;
  VisibleRange visible;
};

__device__ inline int32_t work_of_sequence(const AttentionCudaArgs& args, int s) {
  const SequenceRowsRange rows = sequence_rows(args, s);
  const int32_t pairs = rows.count * args.group;
  if (pairs == 0 || pairs > args.few_pairs) return 0;
  const int32_t blocks = (pairs + kDecodePairs - 1) / kDecodePairs;
  return args.kv_heads * blocks * visible_range(args, rows.row, rows.row + rows.count).tiles();
}

__device__ inline Key key_of(const AttentionCudaArgs& args, const int32_t* ends, int32_t work) {
  Key key;
  key.sequence = sequence_of(ends, args.sequences, work);
  key.rows = sequence_rows(args, key.sequence);
  key.visible = visible_range(args, key.rows.row, key.rows.row + key.rows.count);
  const int32_t first = key.sequence == 0 ? 0 : ends[key.sequence - 1];
  const int32_t tiles = key.visible.tiles();
  const int32_t index = (work - first) / tiles;  // block * G + key head
  key.begin = first + index * tiles;
  key.end = key.begin + tiles;
  key.head = index % args.kv_heads;
  key.pair = index / args.kv_heads * kDecodePairs;
  key.pairs = min(kDecodePairs, key.rows.count * args.group - key.pair);
  return key;
}

__device__ __forceinline__ int64_t query_offset(const AttentionCudaArgs& args, const Key& key,
                                                int pair, int64_t stride, int head_size) {
  const int32_t index = key.pair + pair;
  return (key.rows.row + index / args.group) * stride +
         (key.head * args.group + index % args.group) * head_size;
}

// What a split, or the fold of several, is for 8 pairs: a slot of the scratch.
template <int kHeadSize>
struct PartView {
  float* data;
  __device__ float* outputs(int pair) const { return data + pair * kHeadSize; }
  __device__ float& maximum(int pair) const { return data[kDecodePairs * kHeadSize + pair]; }
  __device__ float& sum(int pair) const {
    return data[kDecodePairs * kHeadSize + kDecodePairs + pair];
  }
  static constexpr int kFloats = kDecodePairs * (kHeadSize + 2);
  static __device__ PartView state(const AttentionCudaArgs& args, int32_t cta) {
    return {args.scratch + static_cast<int64_t>(cta) * kFloats};
  }
  static __device__ PartView of_run(const AttentionCudaArgs& args, int32_t cta, int32_t tile) {
    const int64_t slot =
        gridDim.x + static_cast<int64_t>(cta) * args.run_slots + static_cast<int64_t>(tile);
    return {args.scratch + slot * kFloats};
  }
};

// A tile's part in registers: this warp's elements of the output and, in every warp, maxima and
// sums. Thread (g, q) = (lane / 4, lane % 4) has elements g and g + 8 of each run of 16, pairs 2 q
// and 2 q + 1.
template <int kHeadSize>
struct Part {
  static constexpr int kRuns = kHeadSize / 16;
  static constexpr int kRunsOfWarp = (kRuns + kWarps - 1) / kWarps;
  float outputs[kRunsOfWarp][4];
  float maximum[2];
  float sum[2];
};

struct Lane {
  int warp;
  int lane;
  int g;
  int q;
};

}  // namespace ashlar::attention_decode

#endif  // ASHLAR_KERNELS_ATTENTION_ATTENTION_DECODE_CUH_
