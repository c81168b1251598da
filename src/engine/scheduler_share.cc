// Prompt pages that the choices of one request share. Whoever else keeps prefixes for later (a
// prefix tree) does what a PromptShare does: hold a PageList, hand it to admit(), and give it up
// when pages run out.
#include "base/check.h"
#include "engine/scheduler.h"

namespace ashlar {

// Positions of its prompt that s offers to choices to come; they need the last one again for its
// logits. Recurrent state can be had at page edges only.
int64_t Scheduler::offered_positions(const Sequence& s) const {
  const auto it = shares_.find(s.spec.request);
  if (it == shares_.end() || it->second.state != PromptShare::State::kPending) return 0;
  const int64_t positions = s.prompt_tokens() - 1;
  return options_.chunk_positions > 0 ? chunk_base(positions, kPagePositions) : positions;
}

// Keeps the prompt of s for choices to come, once the step being planned has computed it.
void Scheduler::offer_prompt(Sequence& s, StepPlan& plan) {
  const auto it = shares_.find(s.spec.request);
  if (it == shares_.end() || it->second.state != PromptShare::State::kPending) return;
  PromptShare& share = it->second;
  const int64_t positions = offered_positions(s);
  const bool recurrent = options_.chunk_positions > 0;
  // A partial page is offered only when the prompt is complete, so that s finds it shared when it
  // decodes, where it may preempt to copy it, and not in the middle of its prompt.
  if (recurrent ? s.planned < positions : !s.decoding) return;
  // Of recurrent state a copy is needed, and none can be had without a slot to spare or past the
  // boundary.
  const bool no_snapshot =
      recurrent &&
      (s.planned != positions || slots_.free_count() <= options_.max_sequences - running_count());
  if (positions == 0 || no_snapshot) {
    share.state = PromptShare::State::kDropped;
    return;
  }
  share.state = PromptShare::State::kHeld;
  held_shares_.insert(s.spec.request);
  share.positions = positions;
  share.ready_step = plan.step + 1;
  share.pages.share(pages_, s.pages, positions);
  if (recurrent) {
    share.snapshot = *slots_.take();
    plan.slot_copies_after.push_back({s.slot, share.snapshot});
  }
}

// A choice waits while one before it computes the prompt that it could share.
bool Scheduler::may_start(const Sequence& s, int64_t step) const {
  const auto it = shares_.find(s.spec.request);
  if (it == shares_.end()) return true;
  const PromptShare& share = it->second;
  switch (share.state) {
    case PromptShare::State::kHeld:
      return step >= share.ready_step;
    case PromptShare::State::kDropped:
      return true;
    case PromptShare::State::kPending:
      break;
  }
  for (SequenceId id : running_) {
    if (sequences_.at(id).spec.request == s.spec.request) return false;
  }
  return true;
}

// One choice less to wait for; with the last one the share ends.
void Scheduler::choice_started(RequestId request) {
  const auto it = shares_.find(request);
  if (it == shares_.end() || --it->second.unstarted > 0) return;
  drop_share(request, it->second);
  shares_.erase(it);
}

void Scheduler::drop_share(RequestId request, PromptShare& share) {
  if (share.state == PromptShare::State::kHeld) {
    // A plan being made may copy from them: they go when it is submitted.
    late_page_drops_.insert(late_page_drops_.end(), share.pages.ids().begin(),
                            share.pages.ids().end());
    if (share.snapshot >= 0) late_slot_drops_.push_back(share.snapshot);
    held_shares_.erase(request);
  }
  share.state = PromptShare::State::kDropped;
}

bool Scheduler::give_up_a_share() {
  if (held_shares_.empty()) return false;
  const auto first = held_shares_.begin();
  PromptShare& share = shares_.at(*first);
  held_shares_.erase(first);
  share.state = PromptShare::State::kDropped;
  share.pages.release(pages_);
  if (share.snapshot >= 0) slots_.drop(share.snapshot);
  return true;
}

}  // namespace ashlar
