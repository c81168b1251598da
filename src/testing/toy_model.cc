// Two "layers": the first stores token and position, the second a hash of what the first shows.
#include "testing/toy_model.h"

#include <algorithm>
#include <bit>
#include <limits>

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
  const TensorView seen_rows = step.workspace.take(DType::kI64, {step.rows()});
  const TensorView leaks = step.workspace.take(DType::kF32, {step.rows()});
  for (int layer = 0; layer < kLayers; ++layer) {
    const TensorView& pages = step.paged[layer];
    for (int64_t t = 0; t < step.rows(); ++t) {
      const int32_t token = step.tokens.as<int32_t>()[t];
      const int32_t position = step.positions.as<int32_t>()[t];
      const int32_t* table = step.page_table.row<int32_t>(step.row_sequence.as<int32_t>()[t]);
      const int64_t hash = layer == 0 ? 0 : seen_rows.as<int64_t>()[t];
      float* at = position_of(pages, table[position / kPagePositions], position % kPagePositions);
      at[0] =
          token == poison_ ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(token);
      at[1] = static_cast<float>(position);
      at[2] = static_cast<float>(hash & 0xffff);
      at[3] = static_cast<float>(hash >> 16 & 0xffff);
    }
    for (int64_t t = 0; t < step.rows(); ++t) {
      const int32_t* table = step.page_table.row<int32_t>(step.row_sequence.as<int32_t>()[t]);
      const Seen seen = look(pages, table, step.positions.as<int32_t>()[t]);
      seen_rows.as<int64_t>()[t] = static_cast<int64_t>(seen.hash);
      leaks.as<float>()[t] = seen.leak;
    }
  }
  for (int64_t r = 0; r < logits.rows(); ++r) {
    const int32_t t = step.output_rows.as<int32_t>()[r];
    const uint64_t hash = static_cast<uint64_t>(seen_rows.as<int64_t>()[t]);
    for (int64_t v = 0; v < info_.vocabulary; ++v) {
      const uint64_t bits = mix(mix(hash, static_cast<uint64_t>(v)), 7);
      const float noise = static_cast<float>(bits >> 40) * 0x1p-24f;  // [0, 1)
      logits.row<float>(r)[v] =
          v < info_.decodable ? 8.0f * noise - 4.0f + leaks.as<float>()[t] : 100.0f;
    }
  }
}

}  // namespace ashlar
