// Re-laying of rows into panels, by all threads, a few megabytes at a time; applying is the
// operations panel_matmul and panel_gather.
#include "formats/panel_weight.h"

#include <algorithm>
#include <vector>

#include "checkpoint/mapped_file.h"
#include "formats/row_format.h"
#include "kernels/panel_gather/panel_gather.h"
#include "kernels/panel_matmul/panel_matmul.h"
#include "tensor/buffer.h"

namespace ashlar {

namespace {

constexpr int64_t kReadAtOnce = int64_t{4} << 20;  // bytes of the file between two give-backs

class PanelWeight : public Weight {
 public:
  PanelWeight(Buffer buffer, std::vector<PanelMatrix> parts, std::string format)
      : buffer_(std::move(buffer)), parts_(std::move(parts)), format_(std::move(format)) {}

  int64_t outputs() const override { return row_count(parts_); }
  int64_t inputs() const override { return parts_.front().inputs; }
  std::string format() const override { return format_; }
  int64_t storage_bytes() const override { return static_cast<int64_t>(buffer_.bytes()); }

  void apply(Stream& stream, Workspace& workspace, TensorView x, TensorView y,
             const Epilogue& epilogue) const override {
    const Workspace::Scope scope(workspace);
    const TensorView scratch =
        workspace.take(DType::kU8, {panel_matmul_scratch_bytes(x.dim(0), inputs())});
    panel_matmul(stream,
                 {.x = x, .weight = parts_, .y = y, .epilogue = epilogue, .scratch = scratch});
  }

  int64_t workspace_bytes(int64_t rows) const override {
    return panel_matmul_scratch_bytes(rows, inputs()) + kWorkspaceAlignment;
  }

  void gather(Stream& stream, TensorView ids, TensorView y, float scale) const override {
    panel_gather(stream, {.weight = parts_, .ids = ids, .y = y, .scale = scale});
  }

  void dequantize(int64_t begin, int64_t count, float* out) const override {
    CHECK(begin >= 0 && count >= 0 && begin + count <= outputs());
    for (const PanelMatrix& part : parts_) {
      for (; count > 0 && begin < part.rows; ++begin, --count, out += part.inputs) {
        decode_panel_row(part, begin, out);
      }
      begin -= part.rows;
    }
  }

 private:
  static constexpr int64_t kWorkspaceAlignment = 64;

  Buffer buffer_;
  std::vector<PanelMatrix> parts_;
  std::string format_;
};

// 16 rows taken apart. Moving keeps what rows_ points to.
class RowParts {
 public:
  RowParts(RowParts&&) = default;
  RowParts(const PanelLayout& layout, int64_t inputs) {
    const int64_t factors = inputs / (layout.nested() ? kNestedInputs : kCellInputs);
    const int64_t scales = inputs / 16;
    bytes_.resize(static_cast<size_t>(kPanelRows * (inputs + 4 * factors + 2 * scales)));
    uint8_t* next = bytes_.data();
    for (PanelRow& row : rows_) {
      row.factors = reinterpret_cast<uint16_t*>(next);
      row.factors2 = row.factors + factors;
      row.scales = reinterpret_cast<int8_t*>(row.factors2 + factors);
      row.scales2 = reinterpret_cast<uint8_t*>(row.scales + scales);
      row.codes = row.scales2 + scales;
      next = row.codes + inputs;
    }
  }
  std::span<const PanelRow> first(int64_t count) const {
    return std::span(rows_).first(static_cast<size_t>(count));
  }

 private:
  std::vector<uint8_t> bytes_;
  PanelRow rows_[kPanelRows];
};

// The bytes of the file from which panels [begin, end) come. In another order of rows they are
// whole heads, of which a panel may hold a part.
std::span<const std::byte> source_bytes(const PackedRows& rows, int64_t begin, int64_t end) {
  const int64_t head = std::max<int64_t>(1, rows.rope_head_size);
  const int64_t first = begin * kPanelRows / head * head;
  const int64_t last = std::min(rows.rows, round_up(end * kPanelRows, head));
  return {rows.data + first * rows.row_bytes, static_cast<size_t>((last - first) * rows.row_bytes)};
}

void fill(const PackedRows& rows, const PanelMatrix& matrix, std::byte* out, ThreadPool& pool) {
  const PanelSource& source = *rows.codec->panels;
  const int64_t panel_bytes = matrix.layout.panel_bytes(matrix.inputs);
  const int64_t at_once = std::max<int64_t>(1, kReadAtOnce / (rows.row_bytes * kPanelRows));
  std::vector<RowParts> scratch;  // by thread
  for (int t = 0; t < pool.threads(); ++t) scratch.emplace_back(matrix.layout, matrix.inputs);
  for (int64_t begin = 0; begin < matrix.panels(); begin += at_once) {
    const int64_t end = std::min(matrix.panels(), begin + at_once);
    pool.run(end - begin, [&](int64_t part, int thread) {
      const int64_t panel = begin + part;
      const int64_t count = std::min(kPanelRows, matrix.rows - panel * kPanelRows);
      const std::span<const PanelRow> taken = scratch[static_cast<size_t>(thread)].first(count);
      for (int64_t o = 0; o < count; ++o) {
        source.split(rows.row(panel * kPanelRows + o), matrix.inputs, taken[o]);
      }
      pack_panel(matrix.layout, taken, matrix.inputs, out + panel * panel_bytes);
    });
    give_back_pages(source_bytes(rows, begin, end));
  }
}

}  // namespace

bool fits_panels(std::span<const PackedRows> parts, int64_t inputs) {
  return std::all_of(parts.begin(), parts.end(), [&](const PackedRows& part) {
    const PanelSource* panels = part.codec->panels;
    return panels != nullptr &&
           inputs % (panels->layout.nested() ? kNestedInputs : kCellInputs) == 0;
  });
}

Result<std::unique_ptr<Weight>> make_panel_weight(std::span<const PackedRows> parts, int64_t inputs,
                                                  Device& device) {
  std::vector<PanelMatrix> matrices;
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
  for (const PackedRows& part : parts) {
    PanelMatrix matrix = {
        .layout = part.codec->panels->layout, .rows = part.rows, .inputs = inputs};
    offsets.push_back(bytes);
    bytes += matrix.panels() * matrix.layout.panel_bytes(inputs);
    matrices.push_back(matrix);
  }
  ASHLAR_ASSIGN(Buffer buffer, device.allocate(static_cast<size_t>(bytes)));
  for (size_t i = 0; i < matrices.size(); ++i) {
    std::byte* out = static_cast<std::byte*>(buffer.data()) + offsets[i];
    matrices[i].data = out;
    fill(parts[i], matrices[i], out, *device.thread_pool());
  }
  return std::make_unique<PanelWeight>(std::move(buffer), std::move(matrices),
                                       packing_names(parts));
}

}  // namespace ashlar
