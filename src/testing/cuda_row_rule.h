// The row rule (testing/row_rule.h) on the CUDA device: each of 64 rows alone, then in batches of
// every size up to 64, first, last and between, with and without padding.
#ifndef ASHLAR_TESTING_CUDA_ROW_RULE_H_
#define ASHLAR_TESTING_CUDA_ROW_RULE_H_

#include "testing/cuda_device.h"
#include "testing/row_rule.h"

namespace ashlar {

// The bytes of each of `rows` rows of equal length.
template <class T>
std::vector<RowBytes> bytes_of_rows(const std::vector<T>& values, size_t rows) {
  const size_t columns = values.size() / rows;
  std::vector<RowBytes> made;
  for (size_t t = 0; t < rows; ++t) {
    made.push_back(bytes_of(values.data() + t * columns, columns * sizeof(T)));
  }
  return made;
}

// run(stream, rows) as for expect_row_rule.
template <class Run>
void expect_cuda_row_rule(Run run) {
  const std::unique_ptr<Stream> stream = cuda_device().new_stream();
  std::vector<RowBytes> alone;
  for (int row = 0; row < kRowRuleRows; ++row) {
    alone.push_back(run(*stream, std::vector<int>{row}).at(0));
  }
  for (int n = 1; n <= kRowRuleRows; ++n) {
    for (const std::vector<int>& rows : row_rule_batches(n)) {
      const std::vector<RowBytes> made = run(*stream, rows);
      ASSERT_EQ(made.size(), rows.size());
      for (size_t i = 0; i < rows.size(); ++i) {
        if (rows[i] == kPaddingRow) continue;
        ASSERT_TRUE(made[i] == alone[static_cast<size_t>(rows[i])])
            << "row " << rows[i] << " at " << i << " of " << rows.size();
      }
    }
  }
  std::sort(alone.begin(), alone.end());
  EXPECT_TRUE(std::adjacent_find(alone.begin(), alone.end()) == alone.end());
}

}  // namespace ashlar

#endif  // ASHLAR_TESTING_CUDA_ROW_RULE_H_
