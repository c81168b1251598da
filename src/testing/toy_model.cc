// Two "layers": the first stores token and position, the second a hash of what the first shows.
#include "testing/toy_model.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/op.h"

namespace ashlar {
namespace {

constexpr int64_t kHeadSize = 4;
constexpr int kLayers = 2;

uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15u;
  return h ^ (h >> 29);
}

float* position_of(const TensorView& pages, int32_t page, int64_t offset) {
  return pages.row<float>(page) + offset * kHeadSize;
}

struct Seen {
  uint64_t hash = 0x243F6A88;
  float leak = 0;  // 0, or NaN when something unsound lies in a page
};

// Hash of the positions up to `last`, read through the page table.
Seen look(const TensorView& pages, const int32_t* table, int64_t last) {
  Seen seen;
  const int64_t end = (last / kPagePositions + 1) * kPagePositions;
  for (int64_t p = 0; p < end; ++p) {
    const float* at = position_of(pages, table[p / kPagePositions], p % kPagePositions);
    for (int64_t k = 0; k < kHeadSize; ++k) {
      if (p <= last) seen.hash = mix(seen.hash, std::bit_cast<uint32_t>(at[k]));
      seen.leak += 0.0f * at[k];
    }
  }
  return seen;
}

struct ToyLayerArgs {
  int layer = 0;
  int32_t poison = -1;
  TensorView tokens;        // [T] i32
  TensorView positions;     // [T] i32
  TensorView row_sequence;  // [T] i32, -1: padding
  TensorView page_table;    // [S P] i32
  TensorView pages;
  TensorView seen;   // [T] i64, hash of what the layer before showed; replaced
  TensorView leaks;  // [T] f32, written
};

void run_layer(Stream&, const ToyLayerArgs& args) {
  const int64_t rows = args.tokens.dim(0);
  const auto table_of = [&](int64_t t) {
    const int32_t sequence = args.row_sequence.as<int32_t>()[t];
    return sequence < 0 ? nullptr : args.page_table.row<int32_t>(sequence);
  };
  for (int64_t t = 0; t < rows; ++t) {
    const int32_t* table = table_of(t);
    if (table == nullptr) continue;
    const int32_t token = args.tokens.as<int32_t>()[t];
    const int32_t position = args.positions.as<int32_t>()[t];
    const int64_t hash = args.layer == 0 ? 0 : args.seen.as<int64_t>()[t];
    float* at =
        position_of(args.pages, table[position / kPagePositions], position % kPagePositions);
    at[0] =
        token == args.poison ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(token);
    at[1] = static_cast<float>(position);
    at[2] = static_cast<float>(hash & 0xffff);
    at[3] = static_cast<float>(hash >> 16 & 0xffff);
  }
  for (int64_t t = 0; t < rows; ++t) {
    const int32_t* table = table_of(t);
    const Seen seen =
        table == nullptr ? Seen{} : look(args.pages, table, args.positions.as<int32_t>()[t]);
    args.seen.as<int64_t>()[t] = static_cast<int64_t>(seen.hash);
    args.leaks.as<float>()[t] = seen.leak;
  }
}

struct ToyHeadArgs {
  int64_t decodable = 0;
  TensorView output_rows;  // [R] i32
  TensorView seen;         // [T] i64
  TensorView leaks;        // [T] f32
  TensorView logits;       // [R V] f32
};

void run_head(Stream&, const ToyHeadArgs& args) {
  for (int64_t r = 0; r < args.logits.rows(); ++r) {
    const int32_t t = args.output_rows.as<int32_t>()[r];
    const uint64_t hash = static_cast<uint64_t>(args.seen.as<int64_t>()[t]);
    for (int64_t v = 0; v < args.logits.dim(1); ++v) {
      const uint64_t bits = mix(mix(hash, static_cast<uint64_t>(v)), 7);
      const float noise = static_cast<float>(bits >> 40) * 0x1p-24f;  // [0, 1)
      args.logits.row<float>(r)[v] =
          v < args.decodable ? 8.0f * noise - 4.0f + args.leaks.as<float>()[t] : 100.0f;
    }
  }
}

template <class Args>
constexpr Op<Args> op_of(const char* name, void (*run)(Stream&, const Args&)) {
  return {name,
          [](const Args&, const ShapeCheck&) {},
          [](const Args&) { return OpCost{}; },
          run,
          {nullptr, nullptr}};
}
constexpr Op<ToyLayerArgs> kToyLayer = op_of<ToyLayerArgs>("toy_layer", run_layer);
constexpr Op<ToyHeadArgs> kToyHead = op_of<ToyHeadArgs>("toy_head", run_head);

}  // namespace

ToyModel::ToyModel(int64_t vocabulary, int64_t decodable, int64_t context_length) {
  info_.family = "toy";
  info_.layers = kLayers;
  info_.vocabulary = vocabulary;
  info_.decodable = decodable;
  info_.context_length = context_length;
  for (int layer = 0; layer < kLayers; ++layer) {
    paged_shapes_.push_back({DType::kF32, 1, kHeadSize});
    state_needs_.add_paged({2 * kHeadSize * 4, 0});
  }
}

int64_t ToyModel::workspace_bytes(int64_t rows, int64_t) const { return 12 * rows + 128; }

void ToyModel::forward(Step& step, TensorView logits) {
  ++forwards_;
  most_rows_ = std::max(most_rows_, step.rows());
  const TensorView seen = step.workspace.take(DType::kI64, {step.rows()});
  const TensorView leaks = step.workspace.take(DType::kF32, {step.rows()});
  for (int layer = 0; layer < kLayers; ++layer) {
    kToyLayer(step.stream, {layer, poison_, step.tokens, step.positions, step.row_sequence,
                            step.page_table, step.paged[layer], seen, leaks});
    step.emit(layer == 0 ? "layers.0" : "layers.1", leaks);
  }
  kToyHead(step.stream, {info_.decodable, step.output_rows, seen, leaks, logits});
}

}  // namespace ashlar
