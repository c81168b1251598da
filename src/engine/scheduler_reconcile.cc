// What becomes of a step's result, how sequences end, and the rules that the bookkeeping must keep.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "engine/scheduler.h"

namespace ashlar {

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "none";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "?";
}

FinishReason StopRules::after(int32_t token, int64_t count) const {
  const bool ends = std::find(end_tokens.begin(), end_tokens.end(), token) != end_tokens.end();
  if (ends && count > min_tokens) return FinishReason::kStop;
  return count >= max_tokens ? FinishReason::kLength : FinishReason::kNone;
}

std::vector<Outcome> Scheduler::reconcile(const StepResult& result) {
  CHECK(!in_flight_.empty());
  const InFlightStep step = std::move(in_flight_.front());
  in_flight_.pop_front();
  CHECK_EQ(step.step, result.step);
  pages_.step_completed();
  slots_.step_completed();
  std::vector<Outcome> outcomes;
  size_t next = 0;
  for (const InFlightRows& rows : step.rows) {
    Sequence& s = sequences_.at(rows.sequence);
    --s.in_flight;
    const SequenceResult* own = nullptr;
    if (rows.wants_logits) {
      CHECK_LT(next, result.rows.size());
      own = &result.rows[next++];
      CHECK_EQ(own->sequence, rows.sequence);
    }
    if (s.finished()) {
      counts_.discarded_rows += rows.count;
      if (s.in_flight == 0) sequences_.erase(s.id);
    } else if (own != nullptr) {
      outcomes.push_back(take_result(s, rows, *own));
    }
  }
  CHECK_EQ(next, result.rows.size());
  flush_drops();
  return outcomes;
}

Outcome Scheduler::take_result(Sequence& s, const InFlightRows& rows,
                               const SequenceResult& result) {
  Outcome outcome{s.id, 0, FinishReason::kNone};
  const int64_t count = static_cast<int64_t>(result.tokens.size());
  if (!result.failure.empty()) {
    // Whatever made it fail may lie in its pages, and in those that it shares with choices to come.
    s.pages.mark(pages_);
    if (const auto it = shares_.find(s.spec.request); it != shares_.end()) {
      drop_share(it->first, it->second);
    }
    outcome.finish = FinishReason::kError;
    end(s);
    return outcome;
  }
  CHECK(count >= 1 && count <= 1 + rows.drafts);
  // A preempted sequence starts anew once nothing of it is in flight; its token is kept all the
  // same.
  if (s.phase == Sequence::Phase::kRunning) {
    s.planned += count - 1;
    s.slack -= rows.drafts;
  }
  for (const GeneratedToken& t : result.tokens) {
    s.tokens.push_back(t.token);
    ++outcome.appended;
    outcome.finish = s.spec.stop.after(t.token, s.output_tokens());
    if (outcome.finish != FinishReason::kNone) break;
  }
  if (outcome.finish != FinishReason::kNone) end(s);
  return outcome;
}

void Scheduler::finish(SequenceId id) {
  const auto it = sequences_.find(id);
  if (it != sequences_.end() && !it->second.finished()) end(it->second);
  flush_drops();
}

void Scheduler::end(Sequence& s) {
  if (s.phase == Sequence::Phase::kRunning) leave(s);
  waiting_.erase(s.id);
  s.phase = Sequence::Phase::kFinished;
  if (!s.admitted) {
    s.admitted = true;
    choice_started(s.spec.request);
  }
  if (s.in_flight == 0) sequences_.erase(s.id);
}

// Gives back what a running sequence holds; steps in flight delay the return.
void Scheduler::leave(Sequence& s) {
  s.pages.release(pages_);
  slots_.drop(s.slot);
  s.slot = -1;
  running_.erase(s.id);
}

std::string Scheduler::inconsistency() const {
  if (std::string text = pages_.inconsistency(); !text.empty()) return "page " + text;
  if (std::string text = slots_.inconsistency(); !text.empty()) return "slot " + text;
  std::vector<int32_t> page_holders(pages_.size(), 0);
  std::vector<int32_t> slot_holders(slots_.size(), 0);
  for (const auto& [id, s] : sequences_) {
    const bool running = s.phase == Sequence::Phase::kRunning;
    if (running != (running_.count(id) == 1)) return fmt::format("sequence {}: running set", id);
    if (running == s.pages.empty()) return fmt::format("sequence {}: pages against phase", id);
    if (running != (s.slot >= 0)) return fmt::format("sequence {}: slot against phase", id);
    if ((s.phase == Sequence::Phase::kWaiting) != (waiting_.count(id) == 1)) {
      return fmt::format("sequence {}: waiting set", id);
    }
    if (running && s.planned + s.slack > s.pages.capacity()) {
      return fmt::format("sequence {}: planned past its pages", id);
    }
    for (PageId page : s.pages.ids()) ++page_holders[page];
    if (running) ++slot_holders[s.slot];
  }
  for (const auto& [request, share] : shares_) {
    const bool held = share.state == PromptShare::State::kHeld;
    if (held != (held_shares_.count(request) == 1)) {
      return fmt::format("request {}: held shares", request);
    }
    if (!held) continue;
    for (PageId page : share.pages.ids()) ++page_holders[page];
    if (share.snapshot >= 0) ++slot_holders[share.snapshot];
  }
  for (PageId page : late_page_drops_) ++page_holders[page];
  for (int32_t slot : late_slot_drops_) ++slot_holders[slot];
  for (int32_t page = 0; page < pages_.size(); ++page) {
    if (page_holders[page] != pages_.holders(page)) {
      return fmt::format("page {}: {} lists, {} counted", page, page_holders[page],
                         pages_.holders(page));
    }
  }
  for (int32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slot_holders[slot] != slots_.holders(slot)) {
      return fmt::format("slot {}: {} users, {} counted", slot, slot_holders[slot],
                         slots_.holders(slot));
    }
  }
  if (!running_.empty() && !waiting_.empty() && *running_.rbegin() > *waiting_.begin()) {
    return "a later arrival runs while an earlier one waits";
  }
  return {};
}

}  // namespace ashlar
