// Bf16 tiles as a Weight. What is here only allocates and says where rows go; WeightLoader brings
// them.
#include "formats/tile_weight.h"

#include "base/align.h"
#include "formats/dense/dense.h"
#include "formats/row_format.h"
#include "formats/weight_loader.h"
#include "kernels/gather_dense/gather_dense.h"
#include "kernels/tile_matmul/tile_matmul.h"
#include "tensor/buffer.h"

namespace ashlar {

namespace {

constexpr int64_t kTileAlignment = 1024;  // of TileWeight's data
constexpr int64_t kElementBytes = sizeof(BF16);
constexpr int64_t kWorkspaceAlignment = 64;

class Bf16Weight : public Weight {
 public:
  Bf16Weight(std::vector<TileSource> parts, std::string format)
      : parts_(std::move(parts)), format_(std::move(format)) {}

  // Of [outputs inputs], for this use; contents are undefined.
  Status allocate(const TileShape& shape, WeightUse use, Device& device) {
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
    return {};
  }

  TileTarget target() const { return {.rows = rows_, .tiles = tiles_}; }

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
                                                 WeightUse use, Device& device,
                                                 WeightLoader* loader) {
  std::vector<PackedRows> rows;
  for (const TileSource& part : parts) rows.push_back(part.rows);
  const TileShape shape = {
      .outputs = row_count(rows), .inputs = inputs, .gated = use == WeightUse::kGated};
  if (use != WeightUse::kLookup) ASHLAR_TRY(check_shape(parts.front(), shape));
  auto weight = std::make_unique<Bf16Weight>(parts, format_name(rows));
  ASHLAR_TRY(weight->allocate(shape, use, device));
  WeightLoader own(device);
  WeightLoader& loads = loader != nullptr ? *loader : own;
  int64_t first = 0;
  for (const TileSource& part : parts) {
    loads.add({.source = part, .inputs = inputs, .first = first, .target = weight->target()});
    first += part.rows.rows;
  }
  if (loader == nullptr) ASHLAR_TRY(own.run());
  return weight;
}

}  // namespace ashlar
