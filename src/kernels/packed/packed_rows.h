// PackedRows: a run of weight rows as they lie in a file, and RowCodec: how one way of packing them
// becomes f32.
//
// Kernels know a packing only through its codec, so a new one needs no change here. A row is a
// whole number of blocks without padding, at any alignment. What a packing is called in a file, and
// which exist, is known to formats/.
#ifndef ASHLAR_KERNELS_PACKED_PACKED_ROWS_H_
#define ASHLAR_KERNELS_PACKED_PACKED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"

namespace ashlar {

struct PanelSource;

// Decodes `count` consecutive blocks into out[count * block_elements]. Any alignment of both.
using DecodeBlocks = void (*)(const std::byte* blocks, int64_t count, float* out);

// A block is at most this many elements, and its size divides it: runs of a multiple of it are
// whole blocks.
constexpr int64_t kLargestBlock = 256;

struct RowCodec {
  const char* name;    // "Q4_K", as users know it
  int block_elements;  // divides kLargestBlock
  int block_bytes;
  DecodeBlocks truth;  // plain code, operations in the order that the format defines
  DecodeBlocks cpu;    // vector code with the same bits (only the payload of a NaN may differ)
  bool (*valid)(const std::byte* blocks,
                int64_t count) = nullptr;  // whether all scales are numbers; null: not asked
  const PanelSource* panels = nullptr;     // how its rows become panels; null: they stay rows
};

// The row of a file that holds row `row` of the model, where rotation pairs are stored side by
// side: file row h*K + 2i + p holds row h*K + p*K/2 + i of head h, K the head size, p 0 or 1.
constexpr int64_t rope_pairs_row(int64_t row, int64_t head_size) {
  const int64_t in_head = row % head_size;
  const int64_t half = head_size / 2;
  return row - in_head + 2 * (in_head % half) + in_head / half;
}

struct PackedRows {
  const RowCodec* codec = nullptr;
  const std::byte* data = nullptr;
  int64_t rows = 0;
  int64_t row_bytes = 0;
  int64_t rope_head_size = 0;  // above 0: stored in the order of rope_pairs_row

  const std::byte* row(int64_t r) const {
    return data + (rope_head_size > 0 ? rope_pairs_row(r, rope_head_size) : r) * row_bytes;
  }
};

// One row of a fused matrix, whose rows are those of its parts one after the other.
struct PackedRow {
  const RowCodec* codec;
  const std::byte* data;
};

inline PackedRow find_row(std::span<const PackedRows> parts, int64_t row) {
  for (const PackedRows& part : parts) {
    if (row >= 0 && row < part.rows) return {part.codec, part.row(row)};
    row -= part.rows;
  }
  CHECK(false);
}

inline int64_t row_count(std::span<const PackedRows> parts) {
  int64_t rows = 0;
  for (const PackedRows& part : parts) rows += part.rows;
  return rows;
}

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_PACKED_PACKED_ROWS_H_
