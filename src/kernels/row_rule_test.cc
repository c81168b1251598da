// The row rule (testing/row_rule.h) for every operation on rows. Operations that meet only through
// pages, attention and what stores into them, get a sequence for each run of neighbouring rows, so
// that decode, chunks of a prompt and mixtures of both are among the batches.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/gather/gather.h"
#include "kernels/gather_rows/gather_rows.h"
#include "kernels/kv_pages.h"
#include "kernels/matmul/matmul.h"
#include "kernels/qk_norm_rope_store/qk_norm_rope_store.h"
#include "kernels/rms_norm/rms_norm.h"
#include "testing/random.h"
#include "testing/row_rule.h"

namespace ashlar {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// 64 rows of inputs; padding is NaN, which would spread.
class InputRows {
 public:
  InputRows(uint64_t seed, int64_t columns)
      : columns_(columns), values_(random_floats(seed, kRowRuleRows * columns, 2.0f)) {}
  std::vector<float> batch(const std::vector<int>& rows) const {
    std::vector<float> x;
    for (const int row : rows) {
      for (int64_t c = 0; c < columns_; ++c)
        x.push_back(row == kPaddingRow ? kNan : values_[row * columns_ + c]);
    }
    return x;
  }

 private:
  int64_t columns_;
  std::vector<float> values_;
};

std::vector<RowBytes> split_rows(const std::vector<float>& y, size_t rows) {
  std::vector<RowBytes> made;
  const size_t columns = y.size() / rows;
  for (size_t t = 0; t < rows; ++t)
    made.push_back(bytes_of(&y[t * columns], columns * sizeof(float)));
  return made;
}

TensorView view(std::vector<float>& values, size_t rows) {
  const int64_t count = static_cast<int64_t>(rows);
  return TensorView(values.data(), DType::kF32,
                    {count, static_cast<int64_t>(values.size()) / count});
}

TensorView view(std::vector<int32_t>& values) {
  return TensorView(values.data(), DType::kI32, {static_cast<int64_t>(values.size())});
}

TEST(RowRule, RmsNorm) {
  for (const int64_t columns : {576, 70}) {
    const InputRows x(1, columns);
    const InputRows residual(2, columns);
    std::vector<float> weight = random_floats(3, columns, 1.0f);
    for (const bool add : {false, true}) {
      expect_row_rule([&](Stream& stream, const std::vector<int>& rows) {
        std::vector<float> in = x.batch(rows);
        std::vector<float> y = residual.batch(rows);
        rms_norm(stream, {.x = view(in, rows.size()),
                          .weight = TensorView(weight.data(), DType::kF32, {columns}),
                          .y = view(y, rows.size()),
                          .eps = 1e-5f,
                          .add_to_output = add});
        return split_rows(y, rows.size());
      });
    }
  }
}

// Packs four signed bytes a block.
void decode_bytes(const std::byte* blocks, int64_t count, float* out) {
  for (int64_t i = 0; i < count * 4; ++i)
    out[i] = static_cast<float>(static_cast<int8_t>(blocks[i])) * 0x1p-7f;
}
constexpr RowCodec kBytes = {"bytes", 4, 4, decode_bytes, decode_bytes};

TEST(RowRule, Gather) {
  const int64_t columns = 48;
  const std::vector<std::byte> data = random_bytes(4, (kRowRuleRows + 1) * columns);
  const PackedRows weight[] = {{&kBytes, data.data(), kRowRuleRows + 1, columns}};
  expect_row_rule([&](Stream& stream, const std::vector<int>& rows) {
    std::vector<int32_t> ids;
    for (const int row : rows) ids.push_back(row == kPaddingRow ? kRowRuleRows : row);
    std::vector<float> y(rows.size() * columns);
    gather(stream,
           {.weight = weight, .ids = view(ids), .y = view(y, rows.size()), .scale = 25.298221f});
    return split_rows(y, rows.size());
  });
}

TEST(RowRule, GatherRows) {
  const int64_t columns = 48;
  std::vector<float> x = random_floats(5, kRowRuleRows * columns, 2.0f);
  expect_row_rule([&](Stream& stream, const std::vector<int>& rows) {
    std::vector<int32_t> ids;
    for (const int row : rows) ids.push_back(row == kPaddingRow ? 0 : row);
    std::vector<float> y(rows.size() * columns);
    gather_rows(stream, {.x = view(x, kRowRuleRows), .rows = view(ids), .y = view(y, rows.size())});
    return split_rows(y, rows.size());
  });
}

TEST(RowRule, Matmul) {
  const int64_t inputs = 192;
  const int64_t outputs = 36;
  const InputRows x(6, inputs);
  const std::vector<std::byte> data = random_bytes(7, outputs * inputs);
  const PackedRows weight[] = {{&kBytes, data.data(), outputs, inputs}};
  expect_row_rule([&](Stream& stream, const std::vector<int>& rows) {
    const int64_t count = static_cast<int64_t>(rows.size());
    std::vector<float> in = x.batch(rows);
    std::vector<float> y(static_cast<size_t>(count * outputs));
    const int64_t scratch_bytes =
        matmul_scratch_bytes(count, stream.device().thread_pool()->threads());
    Buffer scratch = stream.device().allocate(static_cast<size_t>(scratch_bytes)).value();
    matmul(stream, {.x = view(in, rows.size()),
                    .weight = weight,
                    .y = view(y, rows.size()),
                    .epilogue = {},
                    .scratch = TensorView(scratch.data(), DType::kU8, {scratch_bytes})});
    return split_rows(y, rows.size());
  });
}

// Rows as the steps of an engine have them: row r of 64 is at position kFirst + r of one text, runs
// of neighbours are one sequence, and padding is in none.
struct StepRows {
  static constexpr int32_t kFirst = 290;  // three tiles of keys: two merge the same in any order

  explicit StepRows(const std::vector<int>& rows) {
    for (size_t t = 0; t < rows.size(); ++t) {
      const bool padding = rows[t] == kPaddingRow;
      positions.push_back(padding ? 0 : kFirst + rows[t]);
      if (padding) {
        row_sequence.push_back(-1);
        if (starts.empty()) continue;
        if (static_cast<int64_t>(starts.size()) == sequences)
          starts.push_back(static_cast<int32_t>(t));
        continue;
      }
      if (t == 0 || rows[t - 1] == kPaddingRow || rows[t] != rows[t - 1] + 1) {
        starts.push_back(static_cast<int32_t>(t));
        ++sequences;
      }
      row_sequence.push_back(static_cast<int32_t>(sequences - 1));
    }
    if (static_cast<int64_t>(starts.size()) == sequences)
      starts.push_back(static_cast<int32_t>(rows.size()));
  }

  std::vector<int32_t> positions;
  std::vector<int32_t> row_sequence;
  std::vector<int32_t> starts;
  int64_t sequences = 0;
};

struct AttentionShape {
  int64_t heads;
  int64_t kv_heads;
  int64_t size;
  int64_t window;
};

TEST(RowRule, Attention) {
  const int64_t page_positions = 32;
  const int64_t page_count = 12;
  for (const AttentionShape& s :
       {AttentionShape{9, 3, 64, 0}, {4, 1, 256, 50}, {2, 2, 80, 0}, {26, 1, 32, 100}}) {
    const InputRows queries(8, s.heads * s.size);
    std::vector<F16> pages(
        static_cast<size_t>(page_count * 2 * s.kv_heads * page_positions * s.size));
    Random random(9);
    for (F16& value : pages) value = to_f16(random.symmetric(2.0f));
    expect_row_rule([&](Stream& stream, const std::vector<int>& rows) {
      StepRows step(rows);
      std::vector<int32_t> table;
      for (int64_t i = 0; i < step.sequences * page_count; ++i)
        table.push_back(static_cast<int32_t>(page_count - 1 - i % page_count));
      std::vector<float> q = queries.batch(rows);
      std::vector<float> y(q.size());
      attention(stream,
                {.q = view(q, rows.size()),
                 .pages = TensorView(pages.data(), DType::kF16,
                                     {page_count, 2 * s.kv_heads, page_positions, s.size}),
                 .page_table = TensorView(table.data(), DType::kI32, {step.sequences, page_count}),
                 .positions = view(step.positions),
                 .sequence_starts = view(step.starts),
                 .y = view(y, rows.size()),
                 .scale = 0.125f,
                 .window = s.window});
      return split_rows(y, rows.size());
    });
  }
}

// Queries, and what lies in the pages at the position of the row.
TEST(RowRule, QkNormRopeStore) {
  const int64_t size = 64;
  const int64_t heads = 3;
  const int64_t columns = (heads + 2) * size;
  const int64_t page_positions = 32;
  const int64_t page_count = 12;
  const InputRows inputs(10, columns);
  std::vector<float> norm = random_floats(11, size, 1.0f);
  std::vector<float> cos_sin = random_floats(12, page_count * page_positions * size, 1.0f);
  for (const bool normed : {false, true}) {
    expect_row_rule([&](Stream& stream, const std::vector<int>& rows) {
      StepRows step(rows);
      // Every sequence has pages of its own.
      std::vector<int32_t> table;
      for (int64_t i = 0; i < step.sequences * page_count; ++i)
        table.push_back(static_cast<int32_t>(i));
      std::vector<F16> pages(table.size() * static_cast<size_t>(2 * page_positions * size));
      const TensorView pages_view(pages.data(), DType::kF16,
                                  {static_cast<int64_t>(table.size()), 2, page_positions, size});
      std::vector<float> qkv = inputs.batch(rows);
      const TensorView weight(norm.data(), DType::kF32, {size});
      qk_norm_rope_store(
          stream,
          {.qkv = view(qkv, rows.size()),
           .q_norm = normed ? weight : TensorView(),
           .k_norm = normed ? weight : TensorView(),
           .eps = 1e-6f,
           .cos_sin = view(cos_sin, static_cast<size_t>(page_count * page_positions)),
           .positions = view(step.positions),
           .row_sequence = view(step.row_sequence),
           .page_table = TensorView(table.data(), DType::kI32, {step.sequences, page_count}),
           .pages = pages_view});
      std::vector<RowBytes> made;
      const KvPages<F16> kv(pages_view);
      for (size_t t = 0; t < rows.size(); ++t) {
        made.push_back(bytes_of(&qkv[t * columns], heads * size * sizeof(float)));
        if (rows[t] == kPaddingRow) continue;
        const int32_t page =
            table[step.row_sequence[t] * page_count + step.positions[t] / page_positions];
        const int64_t offset = step.positions[t] % page_positions;
        for (int64_t k = 0; k < size; ++k) {
          const RowBytes key =
              bytes_of(&kv.keys(page, 0)[k * page_positions + offset], sizeof(F16));
          const RowBytes value = bytes_of(&kv.values(page, 0)[offset * size + k], sizeof(F16));
          made.back().insert(made.back().end(), key.begin(), key.end());
          made.back().insert(made.back().end(), value.begin(), value.end());
        }
      }
      return made;
    });
  }
}

}  // namespace
}  // namespace ashlar
