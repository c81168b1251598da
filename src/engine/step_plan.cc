// Counting and printing of step plans.
#include "engine/step_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ashlar {

int64_t StepPlan::row_count() const {
  int64_t sum = 0;
  for (const SequenceRows& r : rows) sum += r.count;
  return sum;
}

int64_t StepPlan::output_row_count() const {
  int64_t sum = 0;
  for (const SequenceRows& r : rows) sum += r.output_rows();
  return sum;
}

bool StepPlan::waits_for_masks() const {
  return std::any_of(rows.begin(), rows.end(), [](const SequenceRows& r) { return r.late; });
}

std::string StepPlan::text(const std::function<std::string(SequenceId)>& name) const {
  std::string out;
  for (const PageCopy& c : page_copies) out += fmt::format("copy page {}->{}\n", c.from, c.to);
  for (const SlotCopy& c : slot_copies) out += fmt::format("copy slot {}->{}\n", c.from, c.to);
  for (PageId p : page_clears) out += fmt::format("clear page {}\n", p);
  for (const SequenceRows& r : rows) {
    out += name ? name(r.sequence) : fmt::format("#{}", r.sequence);
    out += fmt::format(" @{}", r.first);
    if (r.slack > 0) out += fmt::format("+0..{}", r.slack);
    out += fmt::format(" x{}", r.count);
    if (r.drafts > 0) out += fmt::format(" drafts={}", r.drafts);
    if (r.starts) out += " start";
    if (r.fed) out += " fed";
    if (r.wants_logits) out += " logits";
    if (r.late) out += " late";
    out += fmt::format(" slot={} pages={}\n", r.slot, fmt::join(r.pages, ","));
  }
  for (const SlotCopy& c : slot_copies_after)
    out += fmt::format("then copy slot {}->{}\n", c.from, c.to);
  return out;
}

}  // namespace ashlar
