// attention: the reference against softmax in double precision, the CPU cell against the reference
// bit by bit on every instruction set, and the row rule: how positions are cut into steps, batch
// mates and threads change no bit.
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/align.h"
#include "kernels/attention/attention_cells.h"
#include "kernels/kv_pages.h"
#include "testing/random.h"
#include "testing/vector_targets.h"

namespace ashlar {
namespace {

struct Case {
  int64_t heads;
  int64_t kv_heads;
  int64_t size;
  int64_t page_positions;
  DType type;
  int64_t window;
};

constexpr int64_t kLength = 300;  // positions of a sequence: three tiles, the last not full

// Keys, values and queries of one sequence, stored in pages in a shuffled order; what is not
// written is NaN.
class Sequence {
 public:
  Sequence(const Case& c, uint64_t seed) : case_(c) {
    queries_ = random_floats(seed, kLength * c.heads * c.size, 2.0f);
    const int64_t page_count = divide_up(kLength, c.page_positions);
    pages_.assign(static_cast<size_t>(page_count * 2 * c.kv_heads * c.page_positions * c.size) *
                      dtype_bytes(c.type),
                  std::byte{0xff});
    Random random(seed + 1);
    for (int64_t p = 0; p < page_count; ++p) table_.push_back(static_cast<int32_t>(p));
    for (int64_t p = page_count - 1; p > 0; --p) std::swap(table_[p], table_[random.below(p + 1)]);
    with_kv_type(c.type, [&](auto* element) {
      using T = std::remove_pointer_t<decltype(element)>;
      fill<T>(seed + 2);
    });
  }

  TensorView pages() {
    return TensorView(pages_.data(), case_.type,
                      {static_cast<int64_t>(table_.size()), 2 * case_.kv_heads,
                       case_.page_positions, case_.size});
  }
  float key(int64_t position, int64_t head, int64_t k) const {
    return keys_[(position * case_.kv_heads + head) * case_.size + k];
  }
  float value(int64_t position, int64_t head, int64_t k) const {
    return values_[(position * case_.kv_heads + head) * case_.size + k];
  }

  // Rows [begin, begin + count) of the sequence, through one cell. q and y rows are strided apart.
  std::vector<float> run(Stream& stream, void (*cell)(Stream&, const AttentionArgs&), int64_t begin,
                         int64_t count) {
    const int64_t columns = case_.heads * case_.size;
    std::vector<int32_t> positions;
    for (int64_t t = 0; t < count; ++t) positions.push_back(static_cast<int32_t>(begin + t));
    std::vector<int32_t> starts = {0, static_cast<int32_t>(count)};
    std::vector<float> y(static_cast<size_t>(count * columns));
    cell(stream, {.q = TensorView(queries_.data() + begin * columns, DType::kF32, {count, columns}),
                  .pages = pages(),
                  .page_table = TensorView(table_.data(), DType::kI32,
                                           {1, static_cast<int64_t>(table_.size())}),
                  .positions = TensorView(positions.data(), DType::kI32, {count}),
                  .sequence_starts = TensorView(starts.data(), DType::kI32, {2}),
                  .y = TensorView(y.data(), DType::kF32, {count, columns}),
                  .scale = scale(),
                  .window = case_.window});
    return y;
  }

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(case_.size)); }
  const float* query(int64_t position, int64_t head) const {
    return &queries_[(position * case_.heads + head) * case_.size];
  }
  std::vector<int32_t>& table() { return table_; }
  std::vector<float>& queries() { return queries_; }

 private:
  template <class T>
  void fill(uint64_t seed) {
    const int64_t count = kLength * case_.kv_heads * case_.size;
    keys_ = random_floats(seed, count, 2.0f);
    values_ = random_floats(seed + 1, count, 1.0f);
    const KvPages<T> pages(this->pages());
    for (int64_t p = 0; p < kLength; ++p) {
      const int64_t offset = p % case_.page_positions;
      for (int64_t g = 0; g < case_.kv_heads; ++g) {
        for (int64_t k = 0; k < case_.size; ++k) {
          const int64_t i = (p * case_.kv_heads + g) * case_.size + k;
          const int32_t page = table_[p / case_.page_positions];
          T& stored_key = pages.keys(page, g)[k * case_.page_positions + offset];
          T& stored_value = pages.values(page, g)[offset * case_.size + k];
          stored_key = from_float(keys_[i], static_cast<T*>(nullptr));
          stored_value = from_float(values_[i], static_cast<T*>(nullptr));
          keys_[i] = kv_to_float(stored_key);
          values_[i] = kv_to_float(stored_value);
        }
      }
    }
  }

  Case case_;
  std::vector<float> queries_, keys_, values_;  // keys and values as the pages hold them
  std::vector<std::byte> pages_;
  std::vector<int32_t> table_;
};

std::vector<double> exact(const Case& c, const Sequence& s, int64_t position, int64_t head) {
  const int64_t kv_head = head / (c.heads / c.kv_heads);
  const int64_t first = c.window > 0 ? std::max<int64_t>(0, position - c.window + 1) : 0;
  std::vector<double> weights;
  double sum = 0.0;
  for (int64_t p = first; p <= position; ++p) {
    double score = 0.0;
    for (int64_t k = 0; k < c.size; ++k)
      score += static_cast<double>(s.query(position, head)[k]) * s.key(p, kv_head, k);
    weights.push_back(std::exp(score * s.scale()));
    sum += weights.back();
  }
  std::vector<double> y(static_cast<size_t>(c.size), 0.0);
  for (int64_t p = first; p <= position; ++p) {
    for (int64_t k = 0; k < c.size; ++k) y[k] += weights[p - first] / sum * s.value(p, kv_head, k);
  }
  return y;
}

bool same_bits(const float* a, const float* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

class AttentionCase : public testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Device> device_ = new_cpu_device(2);
  std::unique_ptr<Stream> stream_ = device_->new_stream();
};

TEST_P(AttentionCase, ReferenceIsTheSoftmax) {
  const Case& c = GetParam();
  Sequence sequence(c, 1);
  const std::vector<float> y = sequence.run(*stream_, attention_reference, 0, kLength);
  for (const int64_t position : {0, 1, 31, 127, 128, 200, 299}) {
    for (int64_t head = 0; head < c.heads; ++head) {
      const std::vector<double> wanted = exact(c, sequence, position, head);
      for (int64_t k = 0; k < c.size; ++k) {
        ASSERT_NEAR(y[(position * c.heads + head) * c.size + k], wanted[k], 2e-5)
            << position << " " << head;
      }
    }
  }
}

TEST_P(AttentionCase, CpuCellHasTheBitsOfTheReference) {
  Sequence sequence(GetParam(), 2);
  const std::vector<float> wanted = sequence.run(*stream_, attention_reference, 0, kLength);
  for_each_vector_target([&](const char* target) {
    const std::vector<float> y = sequence.run(*stream_, attention_cpu, 0, kLength);
    EXPECT_TRUE(same_bits(y.data(), wanted.data(), wanted.size())) << target;
  });
}

TEST_P(AttentionCase, StepsAndThreadsChangeNoBit) {
  const Case& c = GetParam();
  Sequence sequence(c, 3);
  const size_t columns = static_cast<size_t>(c.heads * c.size);
  const std::vector<float> whole = sequence.run(*stream_, attention_cpu, 0, kLength);
  for (const int threads : {1, 3}) {
    const std::unique_ptr<Device> device = new_cpu_device(threads);
    const std::unique_ptr<Stream> stream = device->new_stream();
    for (const int64_t chunk : {1, 7, 64, 300}) {
      for (int64_t begin = 0; begin < kLength; begin += chunk) {
        const int64_t count = std::min(chunk, kLength - begin);
        const std::vector<float> y = sequence.run(*stream, attention_cpu, begin, count);
        ASSERT_TRUE(same_bits(y.data(), &whole[begin * columns], y.size()))
            << "chunk " << chunk << " at " << begin;
      }
    }
  }
}

// Two sequences share a step with padding before, and after them.
TEST_P(AttentionCase, BatchMatesChangeNoBitAndPaddingIsZero) {
  const Case& c = GetParam();
  Sequence sequence(c, 4);
  const int64_t columns = c.heads * c.size;
  const std::vector<float> whole = sequence.run(*stream_, attention_cpu, 0, kLength);
  std::vector<int32_t> table = sequence.table();
  table.insert(table.end(), sequence.table().begin(), sequence.table().end());
  // Rows: one of padding, positions 0 to 4 of the first, 198 to 200 of the second, two of padding.
  std::vector<int32_t> positions = {0, 0, 1, 2, 3, 4, 198, 199, 200, 0, 0};
  std::vector<int32_t> starts = {1, 6, 9};
  std::vector<float> q(positions.size() * columns, 1.0f);
  for (size_t t = 1; t < 9; ++t) {
    std::copy_n(sequence.query(positions[t], 0), columns, q.begin() + t * columns);
  }
  std::vector<float> y(q.size(), 5.0f);
  const int64_t rows = static_cast<int64_t>(positions.size());
  attention(*stream_, {.q = TensorView(q.data(), DType::kF32, {rows, columns}),
                       .pages = sequence.pages(),
                       .page_table = TensorView(table.data(), DType::kI32,
                                                {2, static_cast<int64_t>(table.size()) / 2}),
                       .positions = TensorView(positions.data(), DType::kI32, {rows}),
                       .sequence_starts = TensorView(starts.data(), DType::kI32, {3}),
                       .y = TensorView(y.data(), DType::kF32, {rows, columns}),
                       .scale = sequence.scale(),
                       .window = c.window});
  for (size_t t = 0; t < positions.size(); ++t) {
    const std::vector<float> zero(static_cast<size_t>(columns), 0.0f);
    const float* wanted = t >= 1 && t < 9 ? &whole[positions[t] * columns] : zero.data();
    EXPECT_TRUE(same_bits(&y[t * columns], wanted, static_cast<size_t>(columns))) << t;
  }
}

constexpr Case kCases[] = {
    {4, 2, 64, 32, DType::kF16, 0},    // plain
    {3, 1, 64, 32, DType::kF32, 0},    // a group of three
    {9, 3, 16, 32, DType::kBF16, 0},   // more groups than threads
    {2, 1, 256, 32, DType::kF16, 40},  // a window that begins inside tiles
    {1, 1, 80, 64, DType::kF16, 128},  // an odd number of vectors; a window of one tile
    {5, 1, 32, 128, DType::kF32, 1},   // a page is a tile; a row sees itself alone
    {4, 4, 24, 32, DType::kF16, 0},    // not a multiple of 16: the reference serves
    {2, 2, 16, 8, DType::kF16, 9},     // small pages: the reference serves
};
INSTANTIATE_TEST_SUITE_P(Cases, AttentionCase, testing::ValuesIn(kCases));

// A NaN in a later value of the same page, as a poisoned step may leave it, reaches no earlier row.
TEST(Attention, ReadsNothingBeyondItsPosition) {
  const Case c = {4, 2, 64, 32, DType::kF32, 0};
  const std::unique_ptr<Device> device = new_cpu_device(1);
  const std::unique_ptr<Stream> stream = device->new_stream();
  Sequence sequence(c, 5);
  const std::vector<float> clean = sequence.run(*stream, attention_cpu, 150, 8);
  const KvPages<float> pages(sequence.pages());
  const int32_t page = sequence.table()[155 / 32];
  for (int64_t k = 0; k < 64; ++k) {
    pages.keys(page, 0)[k * 32 + 155 % 32] = NAN;
    pages.values(page, 1)[155 % 32 * 64 + k] = NAN;
  }
  const std::vector<float> poisoned = sequence.run(*stream, attention_cpu, 150, 8);
  const size_t columns = 4 * 64;
  EXPECT_TRUE(same_bits(poisoned.data(), clean.data(), 5 * columns));
  for (size_t i = 5 * columns; i < clean.size(); ++i) EXPECT_TRUE(std::isnan(poisoned[i])) << i;
}

// Scores of thousands would overflow without the maximum; the largest takes all the weight.
TEST(Attention, SurvivesLargeScores) {
  const Case c = {1, 1, 32, 32, DType::kF32, 0};
  const std::unique_ptr<Device> device = new_cpu_device(1);
  const std::unique_ptr<Stream> stream = device->new_stream();
  Sequence sequence(c, 6);
  for (float& q : sequence.queries()) q *= 1e4f;
  const std::vector<float> y = sequence.run(*stream, attention_cpu, 250, 1);
  int64_t best = 0;
  double best_score = -1e300;
  for (int64_t p = 0; p <= 250; ++p) {
    double score = 0.0;
    for (int64_t k = 0; k < 32; ++k)
      score += static_cast<double>(sequence.query(250, 0)[k]) * sequence.key(p, 0, k);
    if (score > best_score) {
      best_score = score;
      best = p;
    }
  }
  for (int64_t k = 0; k < 32; ++k) EXPECT_FLOAT_EQ(y[k], sequence.value(best, 0, k));
}

}  // namespace
}  // namespace ashlar
