// Pieces: runs of rows of one tensor, small enough to be on their way to a device while others are
// read, and PieceReader, which makes the bf16 rows of a piece from what the file holds.
//
// Stored bf16 goes straight to where the piece is wanted; other storages are read into a scratch
// and rounded there, row by row, so that half the bytes of f32 cross to the device. It is the
// rounding that tile_pack would do.
#ifndef ASHLAR_FORMATS_PIECE_READER_H_
#define ASHLAR_FORMATS_PIECE_READER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "checkpoint/tensor_reader.h"
#include "kernels/packed/packed_rows.h"
#include "kernels/tile_matmul/tile_matmul.h"
#include "tensor/tensor_view.h"

namespace ashlar {

// The rows of a tensor; rows.data is not used.
struct TileSource {
  PackedRows rows;
  const StoredTensor* tensor = nullptr;  // whose rows these are; outlives what is made of it
};

// Where the rows of a fused matrix [N K] go: to one of the two, or to both.
struct TileTarget {
  TensorView rows;   // [N K] bf16, or empty
  TileWeight tiles;  // data is empty where rows are only looked up
};

// One part of a fused matrix: its rows are `first` and those after it.
struct LoadJob {
  TileSource source;
  int64_t inputs = 0;  // K
  int64_t first = 0;
  TileTarget target;

  int64_t bf16_row_bytes() const { return inputs * 2; }
  int64_t file_bytes() const { return source.rows.rows * source.rows.row_bytes; }
};

struct Piece {
  const LoadJob* job = nullptr;
  int64_t begin = 0;  // row of the part
  int64_t count = 0;

  int64_t bf16_bytes() const { return count * job->bf16_row_bytes(); }
  int64_t file_bytes() const { return count * job->source.rows.row_bytes; }
};

// Cuts jobs into pieces of about piece_bytes, in the order in which their rows lie in the files, so
// that disks stream. Whole heads where rows of a head are found in another order. A row or a head
// of more bytes is a piece of its own. The jobs must stay where they are.
std::vector<Piece> cut_pieces(std::span<const LoadJob> jobs, int64_t piece_bytes);

// Of one thread.
class PieceReader {
 public:
  // All scratch that these pieces need is taken here.
  explicit PieceReader(std::span<const Piece> pieces);

  // The rows of the piece as bf16 into out[piece.bf16_bytes()], aligned to 16 bytes. Errors are
  // those of TensorReader, and kCorrupt for scales that are no numbers.
  Status read(const Piece& piece, std::byte* out);

 private:
  Status round(const Piece& piece, std::byte* out);

  TensorReader reader_;
  std::vector<std::byte> raw_;
  std::vector<float> decoded_;
};

}  // namespace ashlar

#endif  // ASHLAR_FORMATS_PIECE_READER_H_
