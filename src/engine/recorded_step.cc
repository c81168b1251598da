// The list of recorded row counts and the choice among them.
#include "engine/recorded_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ashlar {

std::string_view direct_reason_name(DirectReason reason) {
  switch (reason) {
    case DirectReason::kNotRecording:
      return "recording is off";
    case DirectReason::kPromptRows:
      return "prompt rows";
    case DirectReason::kManySequences:
      return "more sequences than recorded";
    case DirectReason::kManyDrafts:
      return "more drafts than recorded";
  }
  return "?";
}

std::string step_counts_text(const StepCounts& counts) {
  int64_t replayed = 0;
  int64_t direct = 0;
  std::vector<std::string> by_size;
  std::vector<std::string> by_reason;
  for (const RecordedCount& c : counts.recorded) {
    replayed += c.steps;
    const bool drafts = c.rows > c.sequences;
    if (c.steps > 0) {
      by_size.push_back(drafts ? fmt::format("{} of {} in {} rows", c.steps, c.sequences, c.rows)
                               : fmt::format("{} of {}", c.steps, c.sequences));
    }
  }
  for (int i = 0; i < kDirectReasons; ++i) {
    const int64_t steps = counts.direct[static_cast<size_t>(i)];
    direct += steps;
    if (steps > 0) {
      by_reason.push_back(
          fmt::format("{} {}", direct_reason_name(static_cast<DirectReason>(i)), steps));
    }
  }
  std::string text = fmt::format("{} steps replayed", replayed);
  if (!by_size.empty()) text += fmt::format(" (sequences: {})", fmt::join(by_size, ", "));
  text += fmt::format(", {} direct", direct);
  if (!by_reason.empty()) text += fmt::format(" ({})", fmt::join(by_reason, ", "));
  return text;
}

std::vector<int64_t> recorded_sequences(int64_t max_sequences) {
  std::vector<int64_t> list;
  int64_t step = 1;  // a quarter of the power of two below
  for (int64_t n = 1; n < max_sequences; n += step) {
    list.push_back(n);
    while (8 * step <= n) step *= 2;
  }
  list.push_back(max_sequences);
  return list;
}

std::variant<size_t, DirectReason> choose_recording(const std::vector<RecordedStep>& recordings,
                                                    const StepPlan& plan) {
  if (recordings.empty()) return DirectReason::kNotRecording;
  int64_t drafts = 0;
  for (const SequenceRows& r : plan.rows) {
    if (!r.wants_logits || r.count != 1 + r.drafts) return DirectReason::kPromptRows;
    drafts = std::max(drafts, r.drafts);
  }
  bool enough_drafts = false;
  for (size_t i = 0; i < recordings.size(); ++i) {
    if (recordings[i].drafts < drafts) continue;
    enough_drafts = true;
    if (recordings[i].sequences >= static_cast<int64_t>(plan.rows.size())) return i;
  }
  return enough_drafts ? DirectReason::kManySequences : DirectReason::kManyDrafts;
}

}  // namespace ashlar
