// Bookkeeping and printing of OpTable. Operations do not nest, so one start time is enough.
// Nothing is written anywhere but into the returned text.
#include "trace/op_table.h"

#include <algorithm>
#include <vector>

namespace ashlar {

void OpTable::op_begin(Stream&, const OpEvent&) { began_ = std::chrono::steady_clock::now(); }

void OpTable::op_end(Stream&, const OpEvent& event) {
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began_;
  auto it = rows_.find(event.name);
  if (it == rows_.end()) it = rows_.emplace(std::string(event.name), Row{}).first;
  Row& row = it->second;
  ++row.calls;
  row.bytes += event.bytes;
  row.flops += event.flops;
  row.seconds += took.count();
}

std::string OpTable::text() const {
  std::vector<std::pair<std::string_view, Row>> sorted(rows_.begin(), rows_.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  double total = 0;
  for (const auto& [name, row] : sorted) total += row.seconds;
  std::string out = fmt::format("{:<24} {:>8} {:>10} {:>6} {:>9} {:>9}\n", "operation", "calls",
                                "ms", "%", "GB/s", "GFLOP/s");
  for (const auto& [name, row] : sorted) {
    const double seconds = std::max(row.seconds, 1e-9);
    out += fmt::format("{:<24} {:>8} {:>10.2f} {:>6.1f} {:>9.1f} {:>9.1f}\n", name, row.calls,
                       row.seconds * 1e3, 100 * row.seconds / std::max(total, 1e-9),
                       static_cast<double>(row.bytes) / seconds * 1e-9,
                       static_cast<double>(row.flops) / seconds * 1e-9);
  }
  return out;
}

}  // namespace ashlar
