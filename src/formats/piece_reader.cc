// Cutting and reading of pieces. Rows in rotation pairs are permuted within their head, which a
// piece therefore holds as a whole.
#include "formats/piece_reader.h"

#include <algorithm>
#include <tuple>

#include "base/align.h"
#include "base/check.h"
#include "formats/dense/dense.h"
#include "tensor/dtype.h"

namespace ashlar {

namespace {

bool is_copied(const LoadJob& job) {
  return job.source.rows.codec == &bf16_rows && job.source.rows.rope_head_size == 0;
}

int64_t rows_at_once(const LoadJob& job, int64_t piece_bytes) {
  const int64_t row_bytes = std::max(job.bf16_row_bytes(), job.source.rows.row_bytes);
  const int64_t unit = std::max<int64_t>(1, job.source.rows.rope_head_size);
  return std::max(unit, piece_bytes / std::max<int64_t>(1, row_bytes) / unit * unit);
}

auto place_of(const LoadJob& job) {
  return std::tuple<const std::string&, const std::byte*>(job.source.tensor->file,
                                                          job.source.tensor->mapped);
}

}  // namespace

std::vector<Piece> cut_pieces(std::span<const LoadJob> jobs, int64_t piece_bytes) {
  std::vector<const LoadJob*> ordered;
  for (const LoadJob& job : jobs) ordered.push_back(&job);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const LoadJob* a, const LoadJob* b) { return place_of(*a) < place_of(*b); });
  std::vector<Piece> pieces;
  for (const LoadJob* job : ordered) {
    const int64_t rows = job->source.rows.rows;
    const int64_t at_once = rows_at_once(*job, piece_bytes);
    for (int64_t begin = 0; begin < rows; begin += at_once) {
      pieces.push_back({job, begin, std::min(at_once, rows - begin)});
    }
  }
  return pieces;
}

PieceReader::PieceReader(std::span<const Piece> pieces) {
  int64_t raw_bytes = 0;
  int64_t inputs = 0;
  for (const Piece& piece : pieces) {
    if (is_copied(*piece.job)) continue;
    raw_bytes = std::max(raw_bytes, piece.file_bytes());
    inputs = std::max(inputs, piece.job->inputs);
  }
  raw_.resize(static_cast<size_t>(raw_bytes));
  decoded_.resize(static_cast<size_t>(inputs));
}

Status PieceReader::read(const Piece& piece, std::byte* out) {
  const TileSource& source = piece.job->source;
  const auto offset = static_cast<size_t>(piece.begin * source.rows.row_bytes);
  const auto bytes = static_cast<size_t>(piece.file_bytes());
  if (is_copied(*piece.job)) return reader_.read(*source.tensor, offset, {out, bytes});
  CHECK_LE(bytes, raw_.size());
  ASHLAR_TRY(reader_.read(*source.tensor, offset, {raw_.data(), bytes}));
  return round(piece, out);
}

Status PieceReader::round(const Piece& piece, std::byte* out) {
  const TileSource& source = piece.job->source;
  const RowCodec& codec = *source.rows.codec;
  const int64_t inputs = piece.job->inputs;
  const int64_t blocks = inputs / codec.block_elements;
  if (codec.valid != nullptr && !codec.valid(raw_.data(), piece.count * blocks)) {
    return fail(ErrorCode::kCorrupt, "{}: tensor {} has a block scale that is not a number",
                source.tensor->file, source.tensor->name);
  }
  PackedRows rows = source.rows;
  rows.data = raw_.data();  // heads are whole, so the order is that of the whole matrix
  auto* to = reinterpret_cast<BF16*>(out);
  for (int64_t i = 0; i < piece.count; ++i, to += inputs) {
    codec.cpu(rows.row(i), blocks, decoded_.data());
    for (int64_t k = 0; k < inputs; ++k) to[k] = to_bf16(decoded_[static_cast<size_t>(k)]);
  }
  return {};
}

}  // namespace ashlar
