// Loading of weights that are packed row by row, and applying of those that stay rows. The work is
// in the operations matmul and gather.
#include "formats/row_format.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "formats/panel_weight.h"
#include "formats/tile_weight.h"
#include "kernels/gather/gather.h"
#include "kernels/matmul/matmul.h"

namespace ashlar {

namespace {

class RowWeight : public Weight {
 public:
  RowWeight(std::vector<PackedRows> parts, int64_t inputs, int threads)
      : parts_(std::move(parts)), inputs_(inputs), threads_(threads) {}

  int64_t outputs() const override { return row_count(parts_); }
  int64_t inputs() const override { return inputs_; }

  std::string format() const override { return packing_names(parts_); }

  int64_t storage_bytes() const override {
    int64_t bytes = 0;
    for (const PackedRows& part : parts_) bytes += part.rows * part.row_bytes;
    return bytes;
  }

  void apply(Stream& stream, Workspace& workspace, TensorView x, TensorView y,
             const Epilogue& epilogue) const override {
    const Workspace::Scope scope(workspace);
    const TensorView scratch =
        workspace.take(DType::kU8, {matmul_scratch_bytes(x.dim(0), threads_)});
    matmul(stream, {.x = x, .weight = parts_, .y = y, .epilogue = epilogue, .scratch = scratch});
  }

  int64_t workspace_bytes(int64_t rows) const override {
    return matmul_scratch_bytes(rows, threads_) + kWorkspaceAlignment;
  }

  void gather(Stream& stream, TensorView ids, TensorView y, float scale) const override {
    ashlar::gather(stream, {.weight = parts_, .ids = ids, .y = y, .scale = scale});
  }

  void dequantize(int64_t begin, int64_t count, float* out) const override {
    CHECK(begin >= 0 && count >= 0 && begin + count <= outputs());
    for (int64_t i = 0; i < count; ++i) {
      const PackedRow row = find_row(parts_, begin + i);
      row.codec->truth(row.data, inputs_ / row.codec->block_elements, out + i * inputs_);
    }
  }

 private:
  static constexpr int64_t kWorkspaceAlignment = 64;

  std::vector<PackedRows> parts_;
  int64_t inputs_;
  int threads_;
};

}  // namespace

std::string packing_names(std::span<const PackedRows> parts) {
  std::vector<std::string> names;
  for (const PackedRows& part : parts) {
    const std::string name = part.codec->name;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, "+"));
}

const RowCodec* RowFormat::codec(StorageType type) const {
  const auto found =
      std::find_if(storages_.begin(), storages_.end(),
                   [type](const RowStorage& storage) { return storage.type == type; });
  return found == storages_.end() ? nullptr : found->codec;
}

std::string RowFormat::storages() const {
  std::string out;
  for (const RowStorage& storage : storages_) {
    out += fmt::format("{}{}", out.empty() ? "" : ", ", storage_name(storage.type));
  }
  return out;
}

bool RowFormat::recognizes(const TensorGroup& tensors) const {
  const StoredTensor* weight = tensors.find("weight");
  return weight != nullptr && codec(weight->type) != nullptr;
}

Result<PackedRows> RowFormat::load_part(const WeightPart& part, bool in_place) const {
  const StoredTensor& tensor = *part.tensors.claim("weight");
  const RowCodec& codec = *this->codec(tensor.type);
  if (tensor.shape != std::vector<int64_t>{part.outputs, part.inputs}) {
    return fail(ErrorCode::kCorrupt, "{}: tensor {} has shape [{}], the model needs [{} {}]",
                tensor.file, tensor.name, fmt::join(tensor.shape, " "), part.outputs, part.inputs);
  }
  PackedRows rows = {.codec = &codec,
                     .data = in_place ? tensor.data() : nullptr,
                     .rows = part.outputs,
                     .row_bytes = static_cast<int64_t>(tensor.row_bytes())};
  if (part.order == RowOrder::kRopePairs) {
    if (part.head_size <= 0 || part.head_size % 2 != 0 || part.outputs % part.head_size != 0) {
      return fail(ErrorCode::kUnsupported,
                  "{}: tensor {} has {} rows in rotation pairs, no whole heads of {}", tensor.file,
                  tensor.name, part.outputs, part.head_size);
    }
    rows.rope_head_size = part.head_size;
  }
  const int64_t blocks = part.outputs * (part.inputs / codec.block_elements);
  if (in_place && codec.valid != nullptr && !codec.valid(rows.data, blocks)) {
    return fail(ErrorCode::kCorrupt, "{}: tensor {} has a block scale that is not a number",
                tensor.file, tensor.name);
  }
  return rows;
}

Result<std::unique_ptr<Weight>> RowFormat::load(std::span<const WeightPart> parts, Device& device,
                                                WeightLoader* loader) const {
  CHECK(!parts.empty());
  std::vector<PackedRows> rows;
  std::vector<TileSource> sources;
  const bool on_cuda = device.backend() == Backend::kCuda;
  for (const WeightPart& part : parts) {
    if (part.inputs != parts.front().inputs) {
      return fail(ErrorCode::kInvalidArgument, "{} and {} cannot be fused: rows of {} and of {}",
                  parts.front().tensors.prefix(), part.tensors.prefix(), parts.front().inputs,
                  part.inputs);
    }
    ASHLAR_ASSIGN(const PackedRows loaded, load_part(part, !on_cuda));
    rows.push_back(loaded);
    sources.push_back({loaded, part.tensors.find("weight")});
  }
  const WeightUse use = parts.front().use;
  if (on_cuda) {
    return make_tile_weight(std::move(sources), parts.front().inputs, use, device, loader);
  }
  // Rows that are only looked up stay where the file is mapped: few of them are ever read.
  if (use != WeightUse::kLookup && fits_panels(rows, parts.front().inputs)) {
    return make_panel_weight(rows, parts.front().inputs, device);
  }
  return std::make_unique<RowWeight>(std::move(rows), parts.front().inputs,
                                     device.thread_pool()->threads());
}

}  // namespace ashlar
