// Loading of bf16 tiles: threads decode rows into pinned memory, a chunk at a time, while the
// device copies and lays out the chunk before it.
//
// Rounding happens on the host, so that half the bytes cross to the device; it is the rounding that
// tile_pack would do. The pool lives as long as one load: a CUDA device has none of its own.
#include "formats/tile_weight.h"

#include <algorithm>
#include <cstring>

#include "base/align.h"
#include "device/cores.h"
#include "device/thread_pool.h"
#include "formats/dense/dense.h"
#include "formats/generated_rows.h"
#include "formats/row_format.h"
#include "kernels/gather_dense/gather_dense.h"
#include "kernels/tile_matmul/tile_matmul.h"
#include "tensor/buffer.h"

namespace ashlar {

namespace {

constexpr int64_t kChunkBytes = int64_t{8} << 20;
constexpr int64_t kGeneratedBytes = int64_t{64} << 20;
constexpr int kMostThreads = 8;
constexpr int64_t kRowsAtOnce = 8;        // of a thread
constexpr int64_t kTileAlignment = 1024;  // of TileWeight's data
constexpr int64_t kElementBytes = sizeof(BF16);
constexpr int64_t kWorkspaceAlignment = 64;

class Bf16Weight : public Weight {
 public:
  Bf16Weight(std::vector<TileSource> parts, std::string format)
      : parts_(std::move(parts)), format_(std::move(format)) {}

  // Of [outputs inputs], for this use; contents are undefined but for the padding of the tiles.
  Status allocate(const TileShape& shape, WeightUse use, Device& device, Stream& stream) {
    tiles_.shape = shape;
    const Shape rows = {shape.outputs, shape.inputs};
    if (use == WeightUse::kLookup || use == WeightUse::kTied) {
      ASHLAR_ASSIGN(rows_buffer_,
                    device.allocate(static_cast<size_t>(rows.count() * kElementBytes)));
      rows_ = rows_buffer_.view(DType::kBF16, rows);
    }
    if (use == WeightUse::kLookup) return {};
    const int64_t bytes = shape.bf16_bytes();
    ASHLAR_ASSIGN(tile_buffer_, device.allocate(static_cast<size_t>(bytes + kTileAlignment)));
    const int64_t address = static_cast<int64_t>(reinterpret_cast<intptr_t>(tile_buffer_.data()));
    tiles_.data = tile_buffer_.view(
        DType::kU8, {bytes}, static_cast<size_t>(round_up(address, kTileAlignment) - address));
    tile_clear(stream, {.weight = tiles_});
    return {};
  }

  const TileWeight& tiles() const { return tiles_; }  // data is empty if rows are only looked up
  TensorView rows() const { return rows_; }           // [N K] bf16, or empty

  int64_t outputs() const override { return tiles_.shape.outputs; }
  int64_t inputs() const override { return tiles_.shape.inputs; }
  std::string format() const override { return format_; }
  int64_t storage_bytes() const override { return outputs() * inputs() * kElementBytes; }

  void apply(Stream& stream, Workspace& workspace, TensorView x, TensorView y,
             const Epilogue& epilogue) const override {
    CHECK(!tiles_.data.empty());
    const Workspace::Scope scope(workspace);
    const int64_t bytes = tile_matmul_scratch_bytes(tiles_.shape, x.dim(0));
    const TensorView scratch = bytes == 0 ? TensorView() : workspace.take(DType::kU8, {bytes});
    tile_matmul(stream,
                {.x = x, .weight = tiles_, .y = y, .epilogue = epilogue, .scratch = scratch});
  }

  int64_t workspace_bytes(int64_t rows) const override {
    if (tiles_.data.empty()) return 0;
    return tile_matmul_scratch_bytes(tiles_.shape, rows) + kWorkspaceAlignment;
  }

  void gather(Stream& stream, TensorView ids, TensorView y, float scale) const override {
    CHECK(!rows_.empty());
    gather_dense(stream, {.weight = rows_, .ids = ids, .y = y, .scale = scale});
  }

  // From the file, so not rounded to bf16.
  void dequantize(int64_t begin, int64_t count, float* out) const override {
    CHECK(begin >= 0 && count >= 0 && begin + count <= outputs());
    for (const TileSource& part : parts_) {
      PackedRows rows = part.rows;
      if (begin < rows.rows && count > 0) rows.data = part.tensor->data();
      for (; count > 0 && begin < rows.rows; ++begin, --count, out += inputs()) {
        rows.codec->truth(rows.row(begin), inputs() / rows.codec->block_elements, out);
      }
      begin -= rows.rows;
    }
  }

 private:
  std::vector<TileSource> parts_;
  std::string format_;
  TileWeight tiles_;
  TensorView rows_;
  Buffer tile_buffer_;
  Buffer rows_buffer_;
};

// Rows of a fused matrix as bf16, by several threads.
class RowRounder {
 public:
  RowRounder(std::vector<PackedRows> parts, int64_t inputs)
      : parts_(std::move(parts)),
        inputs_(inputs),
        pool_(static_cast<int>(std::clamp<int64_t>(divide_up(row_count(parts_), kRowsAtOnce), 1,
                                                   std::min(usable_cores(), kMostThreads)))),
        decoded_(static_cast<size_t>(pool_.threads()),
                 std::vector<float>(static_cast<size_t>(inputs))) {}

  void round(int64_t begin, int64_t count, BF16* out) {
    pool_.run(divide_up(count, kRowsAtOnce), [&](int64_t part, int thread) {
      const int64_t end = std::min(count, (part + 1) * kRowsAtOnce);
      for (int64_t i = part * kRowsAtOnce; i < end; ++i) {
        round_row(find_row(parts_, begin + i), decoded_[static_cast<size_t>(thread)].data(),
                  out + i * inputs_);
      }
    });
  }

 private:
  void round_row(const PackedRow& row, float* decoded, BF16* out) const {
    if (row.codec == &bf16_rows) {
      std::memcpy(out, row.data, static_cast<size_t>(inputs_ * kElementBytes));
      return;
    }
    row.codec->cpu(row.data, inputs_ / row.codec->block_elements, decoded);
    for (int64_t k = 0; k < inputs_; ++k) out[k] = to_bf16(decoded[k]);
  }

  std::vector<PackedRows> parts_;
  int64_t inputs_;
  ThreadPool pool_;
  std::vector<std::vector<float>> decoded_;  // by thread
};

// Half of the double buffer.
struct Chunk {
  Buffer host;
  Buffer device;  // where the weight keeps no rows to pack from
  std::unique_ptr<Event> done;
};

// Makes all rows on the device. Waits for it.
Status generate(Bf16Weight& weight, std::span<const TileSource> parts, Device& device,
                Stream& stream) {
  const int64_t row_bytes = weight.inputs() * kElementBytes;
  int64_t at_once = weight.outputs();
  Buffer staging;  // one is enough: the stream does everything in order
  if (weight.rows().empty()) {
    at_once = std::clamp<int64_t>(kGeneratedBytes / row_bytes, 1, at_once);
    ASHLAR_ASSIGN(staging, device.allocate(static_cast<size_t>(at_once * row_bytes)));
  }
  for (int64_t begin = 0; begin < weight.outputs(); begin += at_once) {
    const int64_t count = std::min(at_once, weight.outputs() - begin);
    const TensorView rows = weight.rows().empty()
                                ? staging.view(DType::kBF16, {count, weight.inputs()})
                                : weight.rows().slice_rows(begin, count);
    generate_rows(stream, parts, begin, rows);
    if (!weight.tiles().data.empty()) {
      tile_pack(stream, {.rows = rows, .first = begin, .weight = weight.tiles()});
    }
  }
  return stream.synchronize();
}

// Rounds all rows and gives them to the weight. Waits for the device.
Status fill(Bf16Weight& weight, std::vector<PackedRows> parts, Device& device, Stream& stream) {
  const int64_t row_bytes = weight.inputs() * kElementBytes;
  const int64_t at_once = std::clamp<int64_t>(kChunkBytes / row_bytes, 1, weight.outputs());
  const size_t chunk_bytes = static_cast<size_t>(at_once * row_bytes);
  Chunk chunks[2];
  for (Chunk& chunk : chunks) {
    ASHLAR_ASSIGN(chunk.host, device.allocate_host(chunk_bytes));
    if (weight.rows().empty()) {
      ASHLAR_ASSIGN(chunk.device, device.allocate(chunk_bytes));
    }
    if (at_once == weight.outputs()) break;  // one is enough
  }
  RowRounder rounder(std::move(parts), weight.inputs());
  for (int64_t begin = 0, i = 0; begin < weight.outputs(); begin += at_once, ++i) {
    Chunk& chunk = chunks[i % 2];
    if (chunk.done != nullptr) ASHLAR_TRY(chunk.done->wait());
    const int64_t count = std::min(at_once, weight.outputs() - begin);
    rounder.round(begin, count, static_cast<BF16*>(chunk.host.data()));
    const TensorView rows = weight.rows().empty()
                                ? chunk.device.view(DType::kBF16, {count, weight.inputs()})
                                : weight.rows().slice_rows(begin, count);
    device.copy(stream, rows.data(), chunk.host.data(), static_cast<size_t>(count * row_bytes));
    if (!weight.tiles().data.empty()) {
      tile_pack(stream, {.rows = rows, .first = begin, .weight = weight.tiles()});
    }
    chunk.done = stream.record();
  }
  return stream.synchronize();
}

Status check_shape(const TileSource& source, const TileShape& shape) {
  const StoredTensor& tensor = *source.tensor;
  if (shape.inputs % 8 != 0) {
    return fail(ErrorCode::kUnsupported,
                "{}: tensor {} has rows of {} numbers; a CUDA device takes multiples of 8",
                tensor.file, tensor.name, shape.inputs);
  }
  if (shape.gated && shape.outputs % (2 * kGateRun) != 0) {
    return fail(ErrorCode::kUnsupported,
                "{}: tensor {} has {} gates; a CUDA device takes multiples of {}", tensor.file,
                tensor.name, shape.outputs / 2, kGateRun);
  }
  return {};
}

// "Q4_K as BF16".
std::string format_name(std::span<const PackedRows> rows) {
  const std::string packing = packing_names(rows);
  return packing == bf16_rows.name ? packing : fmt::format("{} as {}", packing, bf16_rows.name);
}

}  // namespace

Result<std::unique_ptr<Weight>> make_tile_weight(std::vector<TileSource> parts, int64_t inputs,
                                                 WeightUse use, Device& device) {
  std::vector<PackedRows> rows;
  for (const TileSource& part : parts) rows.push_back(part.rows);
  const TileShape shape = {
      .outputs = row_count(rows), .inputs = inputs, .gated = use == WeightUse::kGated};
  if (use != WeightUse::kLookup) ASHLAR_TRY(check_shape(parts.front(), shape));
  const std::vector<TileSource> sources = parts;
  auto weight = std::make_unique<Bf16Weight>(std::move(parts), format_name(rows));
  const std::unique_ptr<Stream> stream = device.new_stream();
  ASHLAR_TRY(weight->allocate(shape, use, device, *stream));
  if (rows.front().data == nullptr) {
    ASHLAR_TRY(generate(*weight, sources, device, *stream));
  } else {
    ASHLAR_TRY(fill(*weight, std::move(rows), device, *stream));
  }
  for (const TileSource& source : sources) source.tensor->give_back();
  return weight;
}

}  // namespace ashlar
