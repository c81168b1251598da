// ChunkCursor: where the recurrent state of a sequence stands, as plain arithmetic.
//
// State in memory comes only from committed positions (the lazy fold): it is the state before
// position `base`, a multiple of the chunk length C, and the rows from base to length are kept as a
// tail. Rejected drafts are undone by the length alone. The device advances the same two numbers
// for itself; the host uses them for snapshots and tests.
#ifndef ASHLAR_CACHE_CHUNK_CURSOR_H_
#define ASHLAR_CACHE_CHUNK_CURSOR_H_

#include <cstdint>

#include "cache/counted_pool.h"

namespace ashlar {

using SlotPool = CountedPool;

struct SlotCopy {
  int32_t from = 0;
  int32_t to = 0;
  friend bool operator==(const SlotCopy&, const SlotCopy&) = default;
};

constexpr int64_t chunk_base(int64_t position, int64_t chunk) { return position / chunk * chunk; }

struct ChunkCursor {
  int64_t base = 0;
  int64_t length = 0;

  int64_t tail() const { return length - base; }  // at most C + drafts

  // A step computed rows from `length` on, of which `committed` were sure when it was launched (all
  // of a prompt, the first of a row and its drafts) and `kept` turned out to stay.
  void advance(int64_t chunk, int64_t committed, int64_t kept) {
    base = chunk_base(length + committed - 1, chunk);
    length += kept;
  }
  friend bool operator==(const ChunkCursor&, const ChunkCursor&) = default;
};

}  // namespace ashlar

#endif  // ASHLAR_CACHE_CHUNK_CURSOR_H_
