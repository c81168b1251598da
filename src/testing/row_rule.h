// The row rule as a test: the bits of an output row depend on that row's own inputs alone.
//
// An operation is given as a function from the rows of a batch to what it makes of each. Every one
// of 64 rows runs alone on one thread; then in batches of every size up to 64, where it comes
// first, last and between, with and without padding around it, on three threads, on every
// instruction set of this machine. What the operation computes is not tested here, only that it is
// always the same.
#ifndef ASHLAR_TESTING_ROW_RULE_H_
#define ASHLAR_TESTING_ROW_RULE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "testing/vector_targets.h"

namespace ashlar {

constexpr int kRowRuleRows = 64;
constexpr int kPaddingRow = -1;

using RowBytes = std::vector<std::byte>;

inline RowBytes bytes_of(const void* data, size_t bytes) {
  const std::byte* first = static_cast<const std::byte*>(data);
  return RowBytes(first, first + bytes);
}

// Batches of n of the 64 rows; each row is first, last and between in some of them.
inline std::vector<std::vector<int>> row_rule_batches(int n) {
  std::vector<int> up;
  for (int i = 0; i < n; ++i) up.push_back((5 * n + i) % kRowRuleRows);
  std::vector<int> down(up.rbegin(), up.rend());
  std::vector<int> padded = down;
  padded.insert(padded.begin(), kPaddingRow);
  padded.insert(padded.end(), 2, kPaddingRow);
  return {up, down, padded};
}

// run(stream, rows) returns one entry a row of the batch, in order; those of padding are not looked
// at. Rows are numbers below 64, or kPaddingRow.
template <class Run>
void expect_row_rule(Run run) {
  const std::unique_ptr<Device> one = new_cpu_device(1);
  const std::unique_ptr<Device> three = new_cpu_device(3);
  std::vector<RowBytes> alone;
  for_each_vector_target([&](const char* target) {
    const std::unique_ptr<Stream> stream = one->new_stream();
    for (int row = 0; row < kRowRuleRows; ++row) {
      const RowBytes bytes = run(*stream, std::vector<int>{row}).at(0);
      if (static_cast<int>(alone.size()) == row) alone.push_back(bytes);
      ASSERT_EQ(bytes, alone[static_cast<size_t>(row)]) << "row " << row << " on " << target;
    }
    const std::unique_ptr<Stream> crowded = three->new_stream();
    for (int n = 1; n <= kRowRuleRows; ++n) {
      for (const std::vector<int>& rows : row_rule_batches(n)) {
        const std::vector<RowBytes> made = run(*crowded, rows);
        ASSERT_EQ(made.size(), rows.size());
        for (size_t i = 0; i < rows.size(); ++i) {
          if (rows[i] == kPaddingRow) continue;
          ASSERT_TRUE(made[i] == alone[static_cast<size_t>(rows[i])])
              << "row " << rows[i] << " at " << i << " of " << rows.size() << " on " << target;
        }
      }
    }
  });
  // Rows that are all alike would hide a row that is taken for another.
  std::sort(alone.begin(), alone.end());
  EXPECT_TRUE(std::adjacent_find(alone.begin(), alone.end()) == alone.end());
}

}  // namespace ashlar

#endif  // ASHLAR_TESTING_ROW_RULE_H_
