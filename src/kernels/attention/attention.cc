// Contract, cost and reference of attention. The reference goes row by row and head by head through
// the definition in attention.h; it also serves head and page sizes that the vector cell does not
// take.
#include "kernels/attention/attention.h"

#include <array>
#include <type_traits>
#include <vector>

#include "kernels/attention/attention_cells.h"
#include "kernels/attention/attention_parts.h"
#include "kernels/kv_pages.h"
#include "kernels/parallel_rows.h"

namespace ashlar {

namespace {

void contract(const AttentionArgs& args, const ShapeCheck& check) {
  check.require(args.q.shape().rank() == 2, "q of rank 2");
  check.require(args.pages.shape().rank() == 4, "pages of rank 4");
  const int64_t kv_heads = args.pages.dim(1) / 2;
  const int64_t size = args.pages.dim(3);
  check.require(kv_heads > 0 && size > 0 && args.q.dim(1) % (kv_heads * size) == 0,
                "query heads that are a multiple of the key heads");
  check.require(kAttentionTile % args.pages.dim(2) == 0, "page positions that divide the tile");
  check.require(is_kv_type(args.pages.dtype()), "pages of f32, f16 or bf16");
  check.require(args.sequence_starts.shape().rank() == 1, "sequence_starts of rank 1");
  check.require(args.page_table.shape().rank() == 2 &&
                    args.page_table.dim(0) == args.sequence_starts.dim(0) - 1,
                "page_table [S P] for S + 1 sequence_starts");
  check.require(args.window >= 0, "window of at least 0");
  check.shape(args.y, args.q.shape(), "y");
  check.shape(args.positions, {args.q.dim(0)}, "positions");
  check.require(args.q.dtype() == DType::kF32 || args.q.dtype() == DType::kBF16,
                "q of f32, or of bf16 on CUDA");
  check.require(args.q.dtype() == DType::kBF16 || args.soft_cap == 0.0f, "no soft-cap on the CPU");
  check.dtype(args.y, args.q.dtype(), "y");
  check.dtype(args.positions, DType::kI32, "positions");
  check.dtype(args.sequence_starts, DType::kI32, "sequence_starts");
  check.dtype(args.page_table, DType::kI32, "page_table");
}

// Keys and values are read once for all rows of a sequence. Positions are known on the host for CPU
// streams alone; elsewhere only what shapes tell is counted: queries and outputs.
OpCost cost(const AttentionArgs& args) {
  if (args.q.dtype() == DType::kBF16) return {4 * args.q.dim(0) * args.q.dim(1), 0};
  const int32_t* positions = args.positions.as<int32_t>();
  const int32_t* starts = args.sequence_starts.as<int32_t>();
  const int64_t rows = args.q.dim(0);
  int64_t keys = 0;   // that are read
  int64_t pairs = 0;  // of a row and a key
  for (int64_t s = 0; s < args.page_table.dim(0); ++s) {
    if (starts[s] == starts[s + 1]) continue;
    keys += visible_keys(positions[starts[s + 1] - 1], args.window).end -
            visible_keys(positions[starts[s]], args.window).begin;
    for (int32_t t = starts[s]; t < starts[s + 1]; ++t) {
      const KeyRange range = visible_keys(positions[t], args.window);
      pairs += range.end - range.begin;
    }
  }
  const int64_t kv_row =
      args.pages.dim(1) * args.pages.dim(3) * static_cast<int64_t>(dtype_bytes(args.pages.dtype()));
  return {keys * kv_row + 8 * rows * args.q.dim(1), 4 * pairs * args.q.dim(1)};
}

template <class T>
void reference_head(const AttentionArgs& args, const int32_t* page_table, int64_t t, int64_t head) {
  const int64_t kv_heads = args.pages.dim(1) / 2;
  const int64_t page_positions = args.pages.dim(2);
  const int64_t size = args.pages.dim(3);
  const int64_t kv_head = head / (args.q.dim(1) / size / kv_heads);
  const KvPages<T> pages(args.pages);
  const float* q = args.q.row<float>(t) + head * size;
  const float factor = score_factor(args.scale);
  const KeyRange range = visible_keys(args.positions.as<int32_t>()[t], args.window);

  RowState state;
  std::vector<float> total(size);
  std::vector<float> tile(size);
  for (int64_t begin = range.begin / kAttentionTile * kAttentionTile; begin < range.end;
       begin += kAttentionTile) {
    const KeyRange visible = within_tile(range, begin);
    std::array<float, kAttentionTile> scores = {};
    for (int64_t l = visible.begin; l < visible.end; ++l) {
      const T* keys =
          pages.keys(page_table[(begin + l) / page_positions], kv_head) + l % page_positions;
      for (int64_t k = 0; k < size; ++k) {
        scores[l] = std::fma(q[k], kv_to_float(keys[k * page_positions]), scores[l]);
      }
    }
    const TileSoftmax softmax = softmax_tile(scores.data(), visible, factor);
    std::fill(tile.begin(), tile.end(), 0.0f);
    for (int64_t l = visible.begin; l < visible.end; ++l) {
      const T* values = pages.values(page_table[(begin + l) / page_positions], kv_head) +
                        l % page_positions * size;
      for (int64_t k = 0; k < size; ++k)
        tile[k] = std::fma(scores[l], kv_to_float(values[k]), tile[k]);
    }
    merge_tile(state, total.data(), softmax, tile.data(), size);
  }
  const float inverse = 1.0f / state.sum;
  float* y = args.y.row<float>(t) + head * size;
  for (int64_t k = 0; k < size; ++k) y[k] = total[k] * inverse;
}

void reference(Stream& stream, const AttentionArgs& args) {
  const int64_t heads = args.q.dim(1) / args.pages.dim(3);
  const int32_t* starts = args.sequence_starts.as<int32_t>();
  const int64_t sequences = args.page_table.dim(0);
  zero_padding_rows(args);
  with_kv_type(args.pages.dtype(), [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    for (int64_t s = 0; s < sequences; ++s) {
      parallel_rows(stream, starts[s + 1] - starts[s], [&](int64_t i) {
        for (int64_t h = 0; h < heads; ++h) {
          reference_head<T>(args, args.page_table.row<int32_t>(s), starts[s] + i, h);
        }
      });
    }
  });
}

}  // namespace

void zero_padding_rows(const AttentionArgs& args) {
  const int32_t* starts = args.sequence_starts.as<int32_t>();
  const int64_t sequences = args.page_table.dim(0);
  const auto zero = [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) std::fill_n(args.y.row<float>(t), args.y.dim(1), 0.0f);
  };
  zero(0, starts[0]);
  zero(starts[sequences], args.q.rows());
}

void attention_reference(Stream& stream, const AttentionArgs& args) { reference(stream, args); }

constinit const Op<AttentionArgs> attention = {
    "attention", contract, cost, reference, {attention_cpu, attention_cuda}};

}  // namespace ashlar
