// The load-time layout of a weight for the tensor cores, and the segments in which sums are made.
//
// A matrix W [N K] is cut into tiles of 64 outputs and blocks of 64 inputs; tiles and blocks come
// in pairs: N and K are filled up to multiples of 128, with zeros. A segment is a run of pairs of
// blocks, made by one chain of instructions from zero; an output is the sum of its S segments in
// ascending order (docs/numerics.md). S depends on the shape of the weight alone, never on the rows
// of a step.
//
// Bytes, of bf16: a tile is a sequence of steps, a step the next pair of blocks of every segment:
//   [tile][step][segment][block of the pair][64 rows of 128 bytes]
// with the 16-byte chunk c of row r at chunk c ^ (r % 8): what matrix instructions read from shared
// memory without bank conflicts. A block is one run of 8 KB. Segments differ by one pair at most;
// the shorter ones have zeros in the last step.
//
// With gates, a tile holds 32 gates and their 32 ups, in turns of eight rows: 8 gates, their 8 ups,
// ... so that both meet in one thread whatever the kernel.
#ifndef ASHLAR_KERNELS_TILE_MATMUL_TILE_LAYOUT_H_
#define ASHLAR_KERNELS_TILE_MATMUL_TILE_LAYOUT_H_

#include <cstdint>

#include "base/align.h"

namespace ashlar {

constexpr int64_t kTileOutputs = 64;
constexpr int64_t kBlockInputs = 64;
constexpr int64_t kBlockBytes = 8192;  // of a tile, in bf16
constexpr int64_t kGateRun = 8;        // rows of gates before the rows of their ups
constexpr int kMaxSegments = 4;

struct TileShape {
  int64_t outputs = 0;  // N as computed; gates and ups together
  int64_t inputs = 0;   // K
  bool gated = false;

  constexpr int64_t tiles() const { return round_up(outputs, 2 * kTileOutputs) / kTileOutputs; }
  constexpr int64_t blocks() const { return round_up(inputs, 2 * kBlockInputs) / kBlockInputs; }
  constexpr int64_t bf16_bytes() const;

  // Where output n lies: tile and row within it. Of a gated weight, n < N/2 is a gate.
  constexpr int64_t row_of(int64_t n) const {
    if (!gated) return n;
    const int64_t half = outputs / 2;
    const int64_t f = n < half ? n : n - half;
    return f / kGateRun * (2 * kGateRun) + f % kGateRun + (n < half ? 0 : kGateRun);
  }
};

// First block of segment `index` of `segments`: lengths differ by one pair at most, the longer ones
// first.
constexpr int64_t segment_begin(int64_t blocks, int64_t segments, int64_t index) {
  const int64_t least = blocks / 2 / segments;
  const int64_t longer = blocks / 2 % segments;
  return 2 * (index * least + (index < longer ? index : longer));
}

// Processors of the GPU that the table of segments is made for (H100 and H200 SXM). A constant, not
// a question to the device: the number of segments decides bits.
constexpr int64_t kSegmentProcessors = 132;

// 1, 2 or 4: the least whose work, one tile's segment a unit, gives every processor nearly two
// units and leaves at most a tenth of them idle in the last round; else the one that leaves fewest
// idle. A segment has at least four blocks.
constexpr int64_t segment_count(const TileShape& shape) {
  int64_t best = 1;
  int64_t best_rounds = 0;  // of all processors, each as long as a segment of the best
  for (int64_t segments = 1; segments <= kMaxSegments; segments *= 2) {
    if (segments > 1 && shape.blocks() / segments < 4) break;
    const int64_t units = shape.tiles() * segments;
    const int64_t rounds = (units + kSegmentProcessors - 1) / kSegmentProcessors;
    if (rounds >= 2 && units * 10 >= rounds * kSegmentProcessors * 9) return segments;
    if (best_rounds == 0 || rounds * best <= best_rounds * segments) {
      best = segments;
      best_rounds = rounds;
    }
  }
  return best;
}

// Pairs of blocks of the longest segment.
constexpr int64_t segment_steps(int64_t blocks, int64_t segments) {
  return (blocks / 2 + segments - 1) / segments;
}

constexpr int64_t TileShape::bf16_bytes() const {
  const int64_t segments = segment_count(*this);
  return tiles() * segment_steps(blocks(), segments) * segments * 2 * kBlockBytes;
}

// Where a block of the matrix lies in a tile, counted in blocks.
constexpr int64_t block_place(int64_t blocks, int64_t segments, int64_t block) {
  const int64_t pair = block / 2;
  const int64_t whole = blocks / 2 / segments;  // steps that all segments have
  const int64_t longer = blocks / 2 % segments;
  const bool in_longer = pair < longer * (whole + 1);
  const int64_t segment = in_longer ? pair / (whole + 1) : (pair - longer) / whole;
  const int64_t step = pair - segment_begin(blocks, segments, segment) / 2;
  return (step * segments + segment) * 2 + block % 2;
}

// Blocks of a tile, with those of zeros.
constexpr int64_t tile_blocks(int64_t blocks, int64_t segments) {
  return segment_steps(blocks, segments) * segments * 2;
}

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_TILE_MATMUL_TILE_LAYOUT_H_
