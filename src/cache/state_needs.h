// StateNeeds: what one sequence must keep between steps, declared by the blocks of a model when
// they are built.
//
// The cache sizes its pools from the sum, so the scheduler never asks which model runs. Three kinds
// exist: keys and values that grow with the sequence (PagedState), the same with a sliding window,
// and recurrent state that is kept only at absolute multiples of C positions plus a tail of at most
// C positions that is kept like keys and values (ChunkState). Sizes are bytes; nothing here knows
// what the bytes mean.
#ifndef ASHLAR_CACHE_STATE_NEEDS_H_
#define ASHLAR_CACHE_STATE_NEEDS_H_

#include <cstdint>
#include <vector>

namespace ashlar {

// Positions in a page, the same for every model. A multiple of the chunk length of recurrent layers
// (32), so that a page edge is always a chunk boundary.
constexpr int64_t kPagePositions = 32;

struct PagedState {
  int64_t bytes_per_position = 0;
  int64_t window = 0;  // positions that a later row can still see; 0: all
};

struct ChunkState {
  int64_t boundary_bytes = 0;      // state after a chunk, once a sequence
  int64_t bytes_per_position = 0;  // tail
  int64_t chunk_positions = 0;     // C; divides kPagePositions
};

struct StateNeeds {
  std::vector<PagedState> paged;  // one a layer that attends; the index is the layer's state id
  std::vector<ChunkState> chunk;  // one a recurrent layer

  int add_paged(PagedState state) {
    paged.push_back(state);
    return static_cast<int>(paged.size()) - 1;
  }
  int add_chunk(ChunkState state) {
    chunk.push_back(state);
    return static_cast<int>(chunk.size()) - 1;
  }
  int64_t page_bytes() const {
    int64_t sum = 0;
    for (const PagedState& s : paged) sum += s.bytes_per_position * kPagePositions;
    return sum;
  }
  int64_t slot_bytes() const {
    int64_t sum = 0;
    for (const ChunkState& s : chunk) {
      sum += s.boundary_bytes + s.bytes_per_position * s.chunk_positions;
    }
    return sum;
  }
};

}  // namespace ashlar

#endif  // ASHLAR_CACHE_STATE_NEEDS_H_
