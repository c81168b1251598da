// The CPU cell of panel_matmul: makes integers of x, hands panels to threads, applies the epilogue.
// The inner product is the path's (panel_paths.h).
//
// A thread takes a run of panels and, for each, all rows in tiles of 48: a panel's codes stay in
// the first-level cache while the integers of x stream from the second. Threads begin with fixed
// runs of panels and help each other at the end (ThreadPool::run_near).
#include <algorithm>
#include <limits>

#include "base/align.h"
#include "kernels/panel_matmul/panel_matmul.h"
#include "kernels/panel_matmul/panel_paths.h"
#include "kernels/parallel_rows.h"

namespace ashlar {

namespace {

constexpr int64_t kTile = kPanelTileRows;
// Rows whose integers stay in the second-level cache (of K = 1536: 0.7 MB) while the panels of a
// part pass.
constexpr int64_t kRowBlock = 4 * kTile;
// Parts a thread: so many that a faster thread can take over what is left of a slower one, so few
// that the rows above serve several panels, or that taking a part is nothing beside one row.
constexpr int64_t parts_a_thread(int64_t rows) { return rows > kRowBlock ? 4 : rows > 1 ? 48 : 16; }

// Where a row of the fused matrix lies.
struct PanelPlace {
  const PanelMatrix* part;
  int64_t panel;
  int64_t first;  // row of the fused matrix that the panel begins with
};

// The panels of a fused matrix, numbered part after part.
PanelPlace find_panel(std::span<const PanelMatrix> parts, int64_t index) {
  int64_t first = 0;
  for (const PanelMatrix& part : parts) {
    if (index < part.panels()) return {&part, index, first + index * kPanelRows};
    index -= part.panels();
    first += part.rows;
  }
  CHECK(false);
}

// The number of the panel that begins with `row`.
int64_t panel_at(std::span<const PanelMatrix> parts, int64_t row) {
  int64_t index = 0;
  for (const PanelMatrix& part : parts) {
    if (row < part.rows) return index + row / kPanelRows;
    index += part.panels();
    row -= part.rows;
  }
  return index;
}

// gates[i] = activation(gates[i]) * ups[i], a vector at a time (kernels/math/activation.h).
template <GatedActivation kGated>
void gate_rows(float* gates, const float* ups, int64_t rows) {
  for (int64_t m = 0; m < rows; ++m, gates += kPanelRows, ups += kPanelRows) {
    alignas(64) float lanes[kPanelRows];
    for (int o = 0; o < kPanelRows; ++o) lanes[o] = apply_gate(kGated, gates[o], ups[o]);
    for (int o = 0; o < kPanelRows; ++o) gates[o] = lanes[o];
  }
}

struct Call {
  const PanelMatmulArgs& args;
  const PanelPath& path;
  const std::byte* integers;  // [M K/32 kInputBlockBytes]
  const InputScale* scales;   // [M K/32]
  int64_t cells;
  int64_t computed;  // columns of y that are not masked
  int64_t up_panel;  // gated: number of the panel with the first up

  void multiply(const PanelPlace& place, int64_t row, int64_t count, float* sums) const {
    const PanelLayout& layout = place.part->layout;
    const std::byte* codes = place.part->panel(place.panel);
    const std::byte* affine = codes + cells * layout.code_bytes();
    path.multiply({.layout = layout,
                   .codes = codes,
                   .affine = affine,
                   .factors = affine + cells * layout.scale_bytes(),
                   .cells = cells,
                   .inputs = integers + row * cells * kInputBlockBytes,
                   .scales = scales + row * cells,
                   .rows = count,
                   .sums = sums});
    if (args.epilogue.bias.empty()) return;
    const float* bias = args.epilogue.bias.as<float>() + place.first;
    const int64_t columns = std::min(kPanelRows, place.part->rows - place.panel * kPanelRows);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t o = 0; o < columns; ++o) sums[i * kPanelRows + o] += bias[o];
    }
  }

  void gate(float* gates, const float* ups, int64_t count) const {
    if (args.epilogue.gated == GatedActivation::kSilu) {
      gate_rows<GatedActivation::kSilu>(gates, ups, count);
    } else {
      gate_rows<GatedActivation::kGeluTanh>(gates, ups, count);
    }
  }

  void store(const float* sums, int64_t row, int64_t count, int64_t first, int64_t columns) const {
    for (int64_t i = 0; i < count; ++i) {
      float* y = args.y.row<float>(row + i) + first;
      const float* sum = sums + i * kPanelRows;
      if (args.epilogue.add_to_output) {
        for (int64_t o = 0; o < columns; ++o) y[o] += sum[o];
      } else {
        std::copy_n(sum, columns, y);
      }
    }
  }

  // One panel of outputs for rows [begin, end); gated: the panel of gates and the one of ups that
  // belongs to it.
  void run(int64_t index, int64_t begin, int64_t end) const {
    alignas(64) float sums[kTile * kPanelRows];
    alignas(64) float ups[kTile * kPanelRows];
    const PanelPlace place = find_panel(args.weight, index);
    const bool gated = args.epilogue.gated != GatedActivation::kNone;
    const int64_t columns =
        std::min({kPanelRows, place.part->rows - place.panel * kPanelRows, computed - place.first});
    for (int64_t row = begin; row < end; row += kTile) {
      const int64_t count = std::min(kTile, end - row);
      multiply(place, row, count, sums);
      if (gated) {
        multiply(find_panel(args.weight, up_panel + index), row, count, ups);
        gate(sums, ups, count);
      }
      store(sums, row, count, place.first, columns);
    }
  }
};

// Columns beyond the decodable vocabulary.
void mask_columns(const PanelMatmulArgs& args, int64_t computed) {
  for (int64_t m = 0; m < args.y.rows(); ++m) {
    float* y = args.y.row<float>(m);
    std::fill(y + computed, y + args.y.dim(1), -std::numeric_limits<float>::infinity());
  }
}

const PanelPath* forced_path = nullptr;

}  // namespace

std::span<const PanelPath* const> panel_paths() {
  static constexpr const PanelPath* kPaths[] = {&panel_path_amx, &panel_path_vnni,
                                                &panel_path_avx2};
  return kPaths;
}

const PanelPath& panel_path() {
  static const PanelPath& fastest =
      **std::ranges::find_if(panel_paths(), [](const PanelPath* path) { return path->usable(); });
  return forced_path != nullptr ? *forced_path : fastest;
}

void force_panel_path(const PanelPath* path) { forced_path = path; }

int64_t panel_matmul_scratch_bytes(int64_t rows, int64_t inputs) {
  const int64_t blocks = rows * (inputs / kCellInputs);
  return blocks * (kInputBlockBytes + static_cast<int64_t>(sizeof(InputScale)));
}

void panel_matmul_cpu(Stream& stream, const PanelMatmulArgs& args) {
  const int64_t rows = args.x.dim(0);
  if (rows == 0) return;
  const int64_t inputs = args.x.dim(1);
  const int64_t cells = inputs / kCellInputs;
  CHECK_GE(args.scratch.shape().count() * static_cast<int64_t>(dtype_bytes(args.scratch.dtype())),
           panel_matmul_scratch_bytes(rows, inputs));
  const PanelPath& path = panel_path();
  auto* integers = static_cast<std::byte*>(args.scratch.data());
  auto* scales = reinterpret_cast<InputScale*>(integers + rows * cells * kInputBlockBytes);
  parallel_rows(stream, rows, [&](int64_t m) {
    path.quantize(args.x.row<float>(m), inputs, integers + m * cells * kInputBlockBytes,
                  scales + m * cells);
  });

  const bool gated = args.epilogue.gated != GatedActivation::kNone;
  const int64_t computed = args.epilogue.decodable > 0 ? args.epilogue.decodable : args.y.dim(1);
  const Call call = {.args = args,
                     .path = path,
                     .integers = integers,
                     .scales = scales,
                     .cells = cells,
                     .computed = computed,
                     .up_panel = gated ? panel_at(args.weight, computed) : 0};
  const int64_t panels = panel_at(args.weight, computed - 1) + 1;
  ThreadPool& pool = *stream.device().thread_pool();
  const int64_t panels_a_part =
      std::max<int64_t>(1, panels / (pool.threads() * parts_a_thread(rows)));
  pool.run_near(divide_up(panels, panels_a_part), [&](int64_t part, int) {
    const int64_t begin = part * panels_a_part;
    const int64_t end = std::min(panels, begin + panels_a_part);
    for (int64_t row = 0; row < rows; row += kRowBlock) {
      for (int64_t index = begin; index < end; ++index) {
        call.run(index, row, std::min(rows, row + kRowBlock));
      }
    }
  });
  mask_columns(args, computed);
}

}  // namespace ashlar
