// The CPU cell of matmul: decode a panel of weights, extend the chains of a block of outputs, fold,
// apply the epilogue.
//
// The inner kernel keeps the chains of W weight rows x X rows of x in registers: 4 x 6 with 32
// registers of 16 lanes (10 loads for 24 FMAs), 2 x 3 with 16 registers of 8. One row of x takes 8
// weight rows, to hide the FMA's latency. Folding neighbours is the same even-odd step on whole
// vectors for either width, so 16 outputs fold together in 15 additions.
//
// Measured 2026-11-30 on 2 cores of a shared Xeon (Sapphire Rapids, 172 GFLOP/s a core): all
// linears of SmolLM2-135M (Q4_1, head Q8_0, 96 MB) take 10.9 ms for one row; 128 rows run at 177
// GFLOP/s.
#include "kernels/matmul/matmul_cpu.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/align.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/matmul_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ashlar {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, kMatmulChains>;
using Vec = hn::Vec<Floats>;
constexpr Floats kFloats;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Floats()));
constexpr int kVectors = kMatmulChains / kLanes;  // that hold one output's chains
constexpr int kWeightRows = kLanes == 16 ? 4 : 2;
constexpr int kInputRows = kLanes == 16 ? 6 : 3;
constexpr int kSingleWeightRows = kLanes == 16 ? 8 : 4;

// Extends the chains of weight rows [w, w + kW) and rows of x [m, m + kX).
template <int kW, int kX>
HWY_INLINE void extend(const MatmulBlock& block, int64_t w, int64_t m) {
  const float* HWY_RESTRICT weights = block.weights + w * block.weight_stride;
  const float* HWY_RESTRICT x = block.x + m * block.x_stride;
  float* chains = block.chains + (m * block.panel + w) * kMatmulChains;
  const int64_t next_row = block.panel * kMatmulChains;
  Vec sums[kX][kW][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kX; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kW; ++j) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        sums[i][j][v] =
            block.first
                ? hn::Zero(kFloats)
                : hn::LoadU(kFloats, chains + i * next_row + j * kMatmulChains + v * kLanes);
      }
    }
  }
  const int64_t whole = block.k / kMatmulChains * kMatmulChains;
  for (int64_t k = 0; k < whole; k += kMatmulChains) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      Vec row[kW];
#pragma GCC unroll 8
      for (int j = 0; j < kW; ++j)
        row[j] = hn::LoadU(kFloats, weights + j * block.weight_stride + k + v * kLanes);
#pragma GCC unroll 8
      for (int i = 0; i < kX; ++i) {
        const Vec input = hn::LoadU(kFloats, x + i * block.x_stride + k + v * kLanes);
#pragma GCC unroll 8
        for (int j = 0; j < kW; ++j) sums[i][j][v] = hn::MulAdd(input, row[j], sums[i][j][v]);
      }
    }
  }
  if (whole < block.k) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const int64_t left = std::clamp<int64_t>(block.k - whole - v * kLanes, 0, kLanes);
      const auto inside = hn::FirstN(kFloats, static_cast<size_t>(left));
#pragma GCC unroll 8
      for (int i = 0; i < kX; ++i) {
        const Vec input =
            hn::MaskedLoad(inside, kFloats, x + i * block.x_stride + whole + v * kLanes);
#pragma GCC unroll 8
        for (int j = 0; j < kW; ++j) {
          const Vec row =
              hn::LoadU(kFloats, weights + j * block.weight_stride + whole + v * kLanes);
          sums[i][j][v] = hn::MulAdd(input, row, sums[i][j][v]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kX; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kW; ++j) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        hn::StoreU(sums[i][j][v], kFloats, chains + i * next_row + j * kMatmulChains + v * kLanes);
      }
    }
  }
}

template <int kW, int kX>
HWY_NOINLINE void extend_panel(const MatmulBlock& block, int64_t m) {
  for (int64_t w = 0; w < block.panel; w += kW) extend<kW, kX>(block, w, m);
}

template <int kX>
HWY_INLINE void extend_remaining(const MatmulBlock& block, int64_t m, int64_t left) {
  if (left == kX) return extend_panel<kWeightRows, kX>(block, m);
  if constexpr (kX > 1) extend_remaining<kX - 1>(block, m, left);
}

void extend_block(const MatmulBlock& block, int64_t rows) {
  if (rows == 1) return extend_panel<kSingleWeightRows, 1>(block, 0);
  int64_t m = 0;
  for (; m + kInputRows <= rows; m += kInputRows) extend_panel<kWeightRows, kInputRows>(block, m);
  if (m < rows) extend_remaining<kInputRows - 1>(block, m, rows - m);
}

// Adds neighbouring lanes of 2 * kCount vectors into kCount.
template <int kCount>
HWY_INLINE void add_neighbours(Vec* v) {
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
    v[i] = hn::Add(hn::ConcatEven(kFloats, v[2 * i + 1], v[2 * i]),
                   hn::ConcatOdd(kFloats, v[2 * i + 1], v[2 * i]));
  }
}

// sums[n] = the folded chains[n 16], for 16 outputs.
HWY_INLINE void fold(const float* chains, float* sums) {
  for (int begin = 0; begin < kMatmulChains; begin += kLanes) {
    Vec v[kMatmulChains];
#pragma GCC unroll 16
    for (int i = 0; i < kMatmulChains; ++i) {
      v[i] = hn::LoadU(kFloats, chains + begin * kMatmulChains + i * kLanes);
    }
    add_neighbours<8>(v);
    add_neighbours<4>(v);
    add_neighbours<2>(v);
    add_neighbours<1>(v);
    hn::StoreU(v[0], kFloats, sums + begin);
  }
}

// values[i] = act(values[i]) * ups[i] for i < count, a multiple of 8.
template <GatedActivation kGated>
HWY_INLINE void gate(float* values, const float* ups, int64_t count) {
  alignas(64) float lanes[8];
  for (int64_t begin = 0; begin < count; begin += 8) {
    for (int i = 0; i < 8; ++i) lanes[i] = apply_gate(kGated, values[begin + i], ups[begin + i]);
    for (int i = 0; i < 8; ++i) values[begin + i] = lanes[i];
  }
}

// sums[panel] of one row: the folded chains, with the bias [panel] if there is one, gated into the
// first half.
void finish_row(const float* chains, int64_t panel, const float* bias, GatedActivation gated,
                float* sums) {
  for (int64_t n = 0; n < panel; n += kMatmulChains) fold(chains + n * kMatmulChains, sums + n);
  if (bias != nullptr) {
    for (int64_t n = 0; n < panel; ++n) sums[n] += bias[n];
  }
  if (gated == GatedActivation::kSilu)
    gate<GatedActivation::kSilu>(sums, sums + panel / 2, panel / 2);
  if (gated == GatedActivation::kGeluTanh) {
    gate<GatedActivation::kGeluTanh>(sums, sums + panel / 2, panel / 2);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ashlar
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ashlar {

HWY_EXPORT(extend_block);
HWY_EXPORT(finish_row);

namespace {

constexpr int64_t kLargestPanel = 32;
// Keeps the decoded rows of a panel from falling into the same cache sets.
constexpr int64_t kRowPadding = 16;
constexpr int64_t kPartsPerThread = 8;
constexpr int64_t kPrefetchDistance = 2048;

struct Scratch {
  float* weights;  // [panel run+padding]
  float* chains;   // [rows panel 16]
};

int64_t thread_scratch_floats(const MatmulTiling& tiling, int64_t rows) {
  return tiling.panel * (tiling.run + kRowPadding) +
         std::min(rows, tiling.rows) * tiling.panel * kMatmulChains;
}

// The weight rows of one panel, and where their outputs go. Slots without a row decode to zeros.
struct Panel {
  PackedRow slots[kLargestPanel] = {};
  float bias[kLargestPanel] = {};
  int64_t column = 0;   // first column of y
  int64_t columns = 0;  // how many
};

void fill_slots(const MatmulArgs& args, int64_t slot, int64_t row, int64_t count, Panel& panel) {
  for (int64_t i = 0; i < count; ++i) {
    panel.slots[slot + i] = find_row(args.weight, row + i);
    if (!args.epilogue.bias.empty()) panel.bias[slot + i] = args.epilogue.bias.as<float>()[row + i];
  }
}

Panel make_panel(const MatmulArgs& args, const MatmulTiling& tiling, int64_t index,
                 int64_t computed) {
  const bool gated = args.epilogue.gated != GatedActivation::kNone;
  const int64_t width = gated ? tiling.panel / 2 : tiling.panel;
  Panel panel;
  panel.column = index * width;
  panel.columns = std::min(width, computed - panel.column);
  fill_slots(args, 0, panel.column, panel.columns, panel);
  if (gated) fill_slots(args, width, panel.column + computed, panel.columns, panel);
  return panel;
}

// Asks for memory that will be decoded soon: rows follow each other in the file, and the
// processor's own prefetcher loses the trail at every switch from decoding to summing. Addresses
// past the end do no harm.
void prefetch(const std::byte* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i, 0, 2);
}

void decode_panel(const Panel& panel, const MatmulTiling& tiling, int64_t begin, int64_t count,
                  float* to) {
  for (int64_t slot = 0; slot < tiling.panel; ++slot, to += tiling.run + kRowPadding) {
    const PackedRow& row = panel.slots[slot];
    if (row.codec == nullptr) {
      std::fill_n(to, round_up(count, kMatmulChains), 0.0f);
      continue;
    }
    const RowCodec& codec = *row.codec;
    // A power of two, since it divides kLargestBlock; divisions would show here.
    const int shift = std::countr_zero(static_cast<unsigned>(codec.block_elements));
    const std::byte* from = row.data + (begin >> shift) * codec.block_bytes;
    const int64_t blocks = count >> shift;
    prefetch(from + kPrefetchDistance, blocks * codec.block_bytes);
    codec.cpu(from, blocks, to);
    std::fill(to + count, to + round_up(count, kMatmulChains), 0.0f);
  }
}

void store_row(const MatmulArgs& args, const Panel& panel, int64_t m, const float* sums) {
  float* y = args.y.row<float>(m) + panel.column;
  if (args.epilogue.add_to_output) {
    for (int64_t i = 0; i < panel.columns; ++i) y[i] += sums[i];
  } else {
    std::memcpy(y, sums, static_cast<size_t>(panel.columns) * sizeof(float));
  }
}

void run_panel(const MatmulArgs& args, const MatmulTiling& tiling, const Panel& panel,
               const Scratch& scratch) {
  const int64_t rows = args.x.dim(0);
  const int64_t inputs = args.x.dim(1);
  const float* bias = args.epilogue.bias.empty() ? nullptr : panel.bias;
  int64_t decoded = -1;
  for (int64_t m = 0; m < rows; m += tiling.rows) {
    const int64_t count = std::min(tiling.rows, rows - m);
    for (int64_t begin = 0; begin < inputs; begin += tiling.run) {
      const int64_t k = std::min(tiling.run, inputs - begin);
      if (decoded != begin) decode_panel(panel, tiling, begin, k, scratch.weights);
      decoded = begin;
      HWY_DYNAMIC_DISPATCH(extend_block)
      ({.weights = scratch.weights,
        .weight_stride = tiling.run + kRowPadding,
        .x = args.x.row<float>(m) + begin,
        .x_stride = args.x.row_stride(),
        .chains = scratch.chains,
        .panel = tiling.panel,
        .k = k,
        .first = begin == 0},
       count);
    }
    for (int64_t i = 0; i < count; ++i) {
      alignas(64) float sums[kLargestPanel];
      HWY_DYNAMIC_DISPATCH(finish_row)
      (scratch.chains + i * tiling.panel * kMatmulChains, tiling.panel, bias, args.epilogue.gated,
       sums);
      store_row(args, panel, m + i, sums);
    }
  }
}

// Columns beyond the decodable vocabulary.
void mask_columns(const MatmulArgs& args, int64_t computed) {
  for (int64_t m = 0; m < args.y.rows(); ++m) {
    float* y = args.y.row<float>(m);
    std::fill(y + computed, y + args.y.dim(1), -std::numeric_limits<float>::infinity());
  }
}

}  // namespace

int64_t matmul_scratch_bytes(int64_t rows, int threads) {
  return thread_scratch_floats(matmul_tiling(rows), rows) * static_cast<int64_t>(sizeof(float)) *
         threads;
}

void matmul_cpu(Stream& stream, const MatmulArgs& args) {
  const int64_t rows = args.x.dim(0);
  if (rows == 0) return;
  ThreadPool& pool = *stream.device().thread_pool();
  const MatmulTiling tiling = matmul_tiling(rows);
  const int64_t scratch_floats = thread_scratch_floats(tiling, rows);
  CHECK_GE(args.scratch.shape().count() * static_cast<int64_t>(dtype_bytes(args.scratch.dtype())),
           matmul_scratch_bytes(rows, pool.threads()));

  const bool gated = args.epilogue.gated != GatedActivation::kNone;
  const int64_t computed = args.epilogue.decodable > 0 ? args.epilogue.decodable : args.y.dim(1);
  const int64_t panels = divide_up(computed, gated ? tiling.panel / 2 : tiling.panel);
  // Enough parts to share the work evenly, few enough that handing them out costs nothing.
  const int64_t panels_a_part =
      std::clamp<int64_t>(panels / (pool.threads() * kPartsPerThread), 1, 16);
  pool.run(divide_up(panels, panels_a_part), [&](int64_t part, int thread) {
    float* base = static_cast<float*>(args.scratch.data()) + thread * scratch_floats;
    const Scratch scratch = {base, base + tiling.panel * (tiling.run + kRowPadding)};
    const int64_t end = std::min(panels, (part + 1) * panels_a_part);
    for (int64_t index = part * panels_a_part; index < end; ++index) {
      run_panel(args, tiling, make_panel(args, tiling, index, computed), scratch);
    }
  });
  mask_columns(args, computed);
}

}  // namespace ashlar
#endif  // HWY_ONCE
