// Pages of several sequences on a CUDA device, steps of attention over them, and what the rows
// should be in double precision.
//
// Pages are handed out in shuffled order; what no sequence wrote, and the page that unused entries
// of the table name, is NaN. Queries are columns of wider rows, whose other columns are NaN too.
#ifndef ASHLAR_TESTING_ATTENTION_POOL_H_
#define ASHLAR_TESTING_ATTENTION_POOL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "base/align.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_scratch.h"
#include "testing/device_tensor.h"
#include "testing/random.h"
#include "testing/tolerance.h"

namespace ashlar {

struct AttentionPoolCase {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t size = 0;
  int64_t page_positions = 32;
  int64_t window = 0;
  float soft_cap = 0.0f;
  float query_magnitude = 2.0f;
};

inline void PrintTo(const AttentionPoolCase& c, std::ostream* out) {
  *out << c.heads << "/" << c.kv_heads << " heads of " << c.size << ", pages of "
       << c.page_positions << ", window " << c.window << ", cap " << c.soft_cap;
}

// Rows [begin, begin + count) of a sequence.
struct AttentionPiece {
  int64_t sequence = 0;
  int64_t begin = 0;
  int64_t count = 0;
};

using AttentionRow = std::vector<std::byte>;  // bf16

// The outputs of a step.
struct AttentionRows {
  std::vector<std::byte> bytes;
  size_t row_bytes = 0;

  AttentionRow row(int64_t i) const {
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(i * row_bytes);
    return AttentionRow(from, from + static_cast<std::ptrdiff_t>(row_bytes));
  }
  bool is_zero(int64_t i) const { return row(i) == AttentionRow(row_bytes, std::byte{0}); }
  std::vector<float> floats(int64_t i) const {
    std::vector<float> out;
    for (size_t k = 0; k < row_bytes; k += 2) {
      BF16 value;
      std::memcpy(&value, bytes.data() + i * row_bytes + k, 2);
      out.push_back(to_float(value));
    }
    return out;
  }
};

class AttentionPool {
 public:
  // Only the first `written` positions of each sequence are stored; 0: all.
  AttentionPool(Stream& stream, const AttentionPoolCase& c, std::vector<int64_t> lengths,
                uint64_t seed, int64_t written = 0)
      : stream_(stream), case_(c), lengths_(std::move(lengths)) {
    int64_t pages = 1;
    for (const int64_t length : lengths_) {
      pages += divide_up(length, c.page_positions);
      table_pages_ = std::max(table_pages_, divide_up(length, c.page_positions));
    }
    std::vector<int32_t> order;
    for (int64_t p = 1; p < pages; ++p) order.push_back(static_cast<int32_t>(p));
    Random random(seed);
    for (size_t p = order.size() - 1; p > 0; --p) std::swap(order[p], order[random.below(p + 1)]);
    std::vector<float> stored(
        static_cast<size_t>(pages * 2 * c.kv_heads * c.page_positions * c.size), NAN);
    for (size_t s = 0; s < lengths_.size(); ++s) {
      std::vector<int32_t> table(static_cast<size_t>(table_pages_), 0);
      for (int64_t p = 0; p < divide_up(lengths_[s], c.page_positions); ++p) {
        table[p] = order.back();
        order.pop_back();
      }
      tables_.push_back(std::move(table));
      make_sequence(s, seed + 10 * (s + 1), written > 0 ? written : lengths_[s], stored);
    }
    pages_ = std::make_unique<DeviceTensor>(
        stream, DType::kBF16, Shape{pages, 2 * c.kv_heads, c.page_positions, c.size}, stored);
  }

  int64_t length(int64_t sequence) const { return lengths_[sequence]; }

  // A step of these pieces, each a sequence of its own, between rows of padding.
  AttentionRows run(const std::vector<AttentionPiece>& pieces, int64_t padding_before = 0,
                    int64_t padding_behind = 0) {
    const int64_t columns = case_.heads * case_.size;
    const int64_t stride = columns + 2 * case_.kv_heads * case_.size;
    std::vector<int32_t> positions(static_cast<size_t>(padding_before), 0);
    std::vector<int32_t> starts = {static_cast<int32_t>(padding_before)};
    std::vector<int32_t> table;
    std::vector<float> q(static_cast<size_t>(padding_before * stride), NAN);
    for (const AttentionPiece& piece : pieces) {
      for (int64_t p = piece.begin; p < piece.begin + piece.count; ++p) {
        positions.push_back(static_cast<int32_t>(p));
        const float* query = queries_[piece.sequence].data() + p * columns;
        q.insert(q.end(), query, query + columns);
        q.insert(q.end(), static_cast<size_t>(stride - columns), NAN);
      }
      starts.push_back(static_cast<int32_t>(positions.size()));
      table.insert(table.end(), tables_[piece.sequence].begin(), tables_[piece.sequence].end());
    }
    positions.insert(positions.end(), static_cast<size_t>(padding_behind), 0);
    q.insert(q.end(), static_cast<size_t>(padding_behind * stride), NAN);
    return step(positions, starts, table, q);
  }

  // One row and head of a step against softmax in double precision.
  void expect_near(int64_t sequence, int64_t position, int64_t head, const AttentionRows& rows,
                   int64_t row, const char* what) const {
    const int64_t size = case_.size;
    const float* q = queries_[sequence].data() + (position * case_.heads + head) * size;
    const int64_t kv_head = head / (case_.heads / case_.kv_heads);
    const int64_t first = case_.window > 0 ? std::max<int64_t>(0, position - case_.window + 1) : 0;
    std::vector<double> weights;
    double most = -1e300;
    double score_error = 0;
    for (int64_t p = first; p <= position; ++p) {
      const float* k = keys_[sequence].data() + (p * case_.kv_heads + kv_head) * size;
      double score = 0;
      for (int64_t i = 0; i < size; ++i) score += static_cast<double>(q[i]) * k[i];
      score *= scale();
      if (case_.soft_cap > 0) score = case_.soft_cap * std::tanh(score / case_.soft_cap);
      weights.push_back(score);
      most = std::max(most, score);
      score_error =
          std::max(score_error, dot_tolerance({.x_norm = norm({q, static_cast<size_t>(size)}),
                                               .w_norm = norm({k, static_cast<size_t>(size)}),
                                               .length = size,
                                               .accumulator_epsilon = 4 * kF32Epsilon}) *
                                    scale());
    }
    score_error += 4 * kF32Epsilon * (std::abs(most) + 2 * case_.soft_cap);
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - most);
    const std::vector<float> got = rows.floats(row);
    const double count = static_cast<double>(weights.size());
    for (int64_t i = 0; i < size; ++i) {
      double wanted = 0;
      double magnitude = 0;
      for (int64_t p = first; p <= position; ++p) {
        const double value = values_[sequence][(p * case_.kv_heads + kv_head) * size + i];
        wanted += weights[p - first] / sum * value;
        magnitude += weights[p - first] / sum * std::abs(value);
      }
      // A weight is off by its score and by one rounding to bf16, in the
      // output and in the sum; sums are f32; the output is rounded once more.
      const double weight_error = kBF16Epsilon + 2 * score_error + 8 * kF32Epsilon;
      const double tolerance = (magnitude + std::abs(wanted)) * weight_error +
                               magnitude * 8 * std::min(count, 512.0) * kF32Epsilon +
                               std::abs(wanted) * kBF16Epsilon + 1e-30;
      ASSERT_NEAR(got[head * size + i], wanted, tolerance)
          << what << ", sequence " << sequence << ", position " << position << ", head " << head
          << ", element " << i;
    }
  }

 private:
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(case_.size)); }

  void make_sequence(size_t s, uint64_t seed, int64_t written, std::vector<float>& stored) {
    const int64_t size = case_.size;
    const int64_t count = lengths_[s] * case_.kv_heads * size;
    const auto rounded = [](std::vector<float> values) {
      for (float& value : values) value = to_float(to_bf16(value));
      return values;
    };
    queries_.push_back(
        rounded(random_floats(seed, lengths_[s] * case_.heads * size, case_.query_magnitude)));
    keys_.push_back(rounded(random_floats(seed + 1, count, 2.0f)));
    values_.push_back(rounded(random_floats(seed + 2, count, 1.0f)));
    for (int64_t p = 0; p < std::min(written, lengths_[s]); ++p) {
      const int64_t page = tables_[s][p / case_.page_positions];
      for (int64_t g = 0; g < case_.kv_heads; ++g) {
        const int64_t from = (p * case_.kv_heads + g) * size;
        const auto at = [&](int64_t head) {
          const int64_t line =
              (page * 2 * case_.kv_heads + head) * case_.page_positions + p % case_.page_positions;
          return stored.begin() + line * size;
        };
        std::copy_n(keys_[s].begin() + from, size, at(g));
        std::copy_n(values_[s].begin() + from, size, at(case_.kv_heads + g));
      }
    }
  }

  AttentionRows step(const std::vector<int32_t>& positions, const std::vector<int32_t>& starts,
                     const std::vector<int32_t>& table, const std::vector<float>& q) {
    const int64_t rows = static_cast<int64_t>(positions.size());
    const int64_t sequences = static_cast<int64_t>(starts.size()) - 1;
    const int64_t columns = case_.heads * case_.size;
    const DeviceTensor queries(stream_, DType::kBF16,
                               Shape{rows, columns + 2 * case_.kv_heads * case_.size}, q);
    const DeviceTensor y(stream_, DType::kBF16, Shape{rows, columns});
    const DeviceTensor position_array(stream_, Shape{rows}, positions);
    const DeviceTensor start_array(stream_, Shape{sequences + 1}, starts);
    const DeviceTensor table_array(stream_, Shape{sequences, table_pages_}, table);
    const int64_t scratch_bytes = attention_scratch_bytes(
        Backend::kCuda, {.rows = rows,
                         .sequences = sequences,
                         .heads = case_.heads,
                         .kv_heads = case_.kv_heads,
                         .head_size = case_.size,
                         .table_positions = table_pages_ * case_.page_positions});
    const DeviceTensor scratch(stream_, DType::kF32, Shape{scratch_bytes / 4});
    attention(stream_, {.q = queries.view().slice_columns(0, columns),
                        .pages = pages_->view(),
                        .page_table = table_array.view(),
                        .positions = position_array.view(),
                        .sequence_starts = start_array.view(),
                        .y = y.view(),
                        .scale = scale(),
                        .window = case_.window,
                        .soft_cap = case_.soft_cap,
                        .scratch = scratch.view()});
    return {y.bytes(stream_), static_cast<size_t>(columns) * 2};
  }

  Stream& stream_;
  AttentionPoolCase case_;
  std::vector<int64_t> lengths_;
  int64_t table_pages_ = 0;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<std::vector<float>> queries_, keys_, values_;  // as stored, rounded to bf16
  std::unique_ptr<DeviceTensor> pages_;
};

}  // namespace ashlar

#endif  // ASHLAR_TESTING_ATTENTION_POOL_H_
