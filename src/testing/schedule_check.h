// schedule_problem: what is wrong between a scheduler and the steps in flight, for scenario and
// property tests.
#ifndef ASHLAR_TESTING_SCHEDULE_CHECK_H_
#define ASHLAR_TESTING_SCHEDULE_CHECK_H_

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <string>

#include "engine/scheduler.h"

namespace ashlar {

// "" when the bookkeeping is consistent and no step in flight refers to a page or slot that is free
// for others.
inline std::string schedule_problem(const Scheduler& scheduler,
                                    const std::deque<StepPlan>& in_flight) {
  if (std::string text = scheduler.inconsistency(); !text.empty()) return text;
  for (const StepPlan& plan : in_flight) {
    for (const SequenceRows& rows : plan.rows) {
      for (PageId page : rows.pages) {
        if (scheduler.pages().is_free(page)) {
          return fmt::format("page {} is free while step {} uses it", page, plan.step);
        }
      }
      if (scheduler.slots().is_free(rows.slot)) {
        return fmt::format("slot {} is free while step {} uses it", rows.slot, plan.step);
      }
    }
    for (const PageCopy& copy : plan.page_copies) {
      if (scheduler.pages().is_free(copy.from)) {
        return fmt::format("page {} is free while step {} copies it", copy.from, plan.step);
      }
    }
  }
  return {};
}

// What a plan must never contain: rows of two sequences that write into one page, or a sequence
// twice.
inline std::string plan_problem(const StepPlan& plan, int64_t step_rows) {
  if (plan.row_count() > step_rows)
    return fmt::format("step {} has {} rows", plan.step, plan.row_count());
  std::vector<PageId> written;
  std::vector<SequenceId> sequences;
  for (const SequenceRows& rows : plan.rows) {
    const int64_t end = rows.first + rows.slack + rows.count;
    if (pages_for(end) > static_cast<int64_t>(rows.pages.size())) {
      return fmt::format("step {}: sequence {} has too few pages", plan.step, rows.sequence);
    }
    for (int64_t p = rows.first / kPagePositions; p < pages_for(end); ++p) {
      written.push_back(rows.pages[static_cast<size_t>(p)]);
    }
    sequences.push_back(rows.sequence);
  }
  for (const SequenceRows& rows : plan.rows) {
    for (int64_t p = 0; p < rows.first / kPagePositions; ++p) {
      const PageId page = rows.pages[static_cast<size_t>(p)];
      if (std::find(written.begin(), written.end(), page) != written.end()) {
        return fmt::format("step {}: page {} is read as history and written", plan.step, page);
      }
    }
  }
  std::sort(written.begin(), written.end());
  if (std::adjacent_find(written.begin(), written.end()) != written.end()) {
    return fmt::format("step {}: a page is written twice", plan.step);
  }
  std::sort(sequences.begin(), sequences.end());
  if (std::adjacent_find(sequences.begin(), sequences.end()) != sequences.end()) {
    return fmt::format("step {}: a sequence is planned twice", plan.step);
  }
  return {};
}

}  // namespace ashlar

#endif  // ASHLAR_TESTING_SCHEDULE_CHECK_H_
