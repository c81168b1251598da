// The decision of a step: who decodes, which chunks of prompts run, who is admitted, who gives way.
#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace ashlar {

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options),
      pages_(options.pages),
      slots_(options.max_sequences + options.snapshot_slots) {
  CHECK_GE(options.step_rows, options.max_sequences);
  CHECK_GE(options.depth, 1);
  for (PageId page = 0; options.clear_pages && page < options.pages; ++page) pages_.mark(page);
}

Status Scheduler::check(const SequenceSpec& spec) const {
  const int64_t prompt = static_cast<int64_t>(spec.prompt.size());
  if (prompt == 0) return fail(ErrorCode::kInvalidArgument, "the prompt is empty");
  if (prompt >= options_.max_context) {
    return fail(ErrorCode::kOutOfRange,
                "the prompt has {} tokens, but the context holds {}, the answer included", prompt,
                options_.max_context);
  }
  const int64_t worst = std::min(prompt + spec.stop.max_tokens, options_.max_context) - 1;
  const int64_t held = options_.pages * kPagePositions;
  if (worst > held) {
    return fail(
        ErrorCode::kResourceExhausted,
        "the prompt of {} tokens and {} output tokens need {} KV positions, but there are {}; "
        "ask for fewer tokens or raise kv_positions",
        prompt, spec.stop.max_tokens, worst, held);
  }
  return {};
}

SequenceId Scheduler::add(SequenceSpec spec, int64_t choices) {
  CHECK(check(spec).has_value());
  CHECK_GE(options_.step_rows, options_.max_sequences * (1 + spec.drafts));
  std::vector<int32_t> prompt = std::move(spec.prompt);
  spec.prompt.clear();
  const SequenceId first = next_id_;
  for (int64_t choice = 0; choice < choices; ++choice) {
    Sequence s;
    s.id = next_id_++;
    s.spec = spec;
    s.spec.choice = spec.choice + choice;
    s.prompt_length = static_cast<int64_t>(prompt.size());
    s.tokens = choice + 1 < choices ? prompt : std::move(prompt);
    s.limit = std::min(s.prompt_tokens() + spec.stop.max_tokens, options_.max_context);
    s.spec.stop.max_tokens = s.limit - s.prompt_tokens();
    waiting_.insert(s.id);
    sequences_.emplace(s.id, std::move(s));
  }
  if (choices > 1) {
    PromptShare share;
    share.unstarted = choices;
    shares_.emplace(spec.request, std::move(share));
  }
  return first;
}

const Sequence* Scheduler::find(SequenceId id) const {
  const auto it = sequences_.find(id);
  return it == sequences_.end() ? nullptr : &it->second;
}

StepPlan Scheduler::plan() {
  CHECK_LT(in_flight(), options_.depth);
  StepPlan plan;
  plan.step = next_step_;
  changes_ = {};
  planned_rows_ = 0;
  plan_decode(plan);
  plan_prompts(plan);
  plan_admissions(plan);
  if (!plan.empty()) submit(plan);
  return plan;
}

void Scheduler::plan_decode(StepPlan& plan) {
  const std::vector<SequenceId> order(running_.begin(), running_.end());
  for (SequenceId id : order) {
    Sequence& s = sequences_.at(id);
    if (s.phase != Sequence::Phase::kRunning || !s.decoding) continue;  // preempted meanwhile
    const int64_t last_first = s.planned + s.slack;
    // The token after position limit - 2 is the last one. If the device may be there already, wait
    // for its result.
    const int64_t room = s.limit - 2 - last_first;
    if (room < 0) continue;
    // A mask for a draft row would depend on the drafts before it, so late masks go with single
    // rows.
    int64_t drafts = s.spec.late ? 0 : std::min(s.spec.drafts, room);
    if (drafts > 0 && !reserve(s, last_first + 1 + drafts, false)) drafts = 0;
    if (drafts == 0 && !reserve(s, last_first + 1, true)) continue;
    SequenceRows& rows = push_rows(s, plan, 1 + drafts, drafts);
    rows.fed = true;
    rows.wants_logits = true;
    s.planned += 1;
    s.slack += drafts;
    counts_.decode_rows += rows.count;
  }
}

void Scheduler::plan_prompts(StepPlan& plan) {
  for (SequenceId id : running_) {
    Sequence& s = sequences_.at(id);
    if (!s.decoding && rows_left() > 0) plan_chunk(s, plan);
  }
}

void Scheduler::plan_chunk(Sequence& s, StepPlan& plan) {
  int64_t end = std::min(s.planned + rows_left(), s.known());
  // A snapshot of recurrent state can only be taken where a step ends.
  const int64_t boundary = options_.chunk_positions > 0 ? offered_positions(s) : 0;
  if (s.planned < boundary && boundary < end) end = boundary;
  CHECK(s.pages.prepare(pages_, s.planned, end, changes_));  // all there since admission
  SequenceRows& rows = push_rows(s, plan, end - s.planned, 0);
  rows.tokens.assign(s.tokens.begin() + s.planned, s.tokens.begin() + end);
  s.planned = end;
  counts_.prompt_rows += rows.count;
  if (end == s.known()) {
    rows.wants_logits = true;
    s.decoding = true;
  }
  offer_prompt(s, plan);
}

void Scheduler::plan_admissions(StepPlan& plan) {
  while (rows_left() > 0 && !waiting_.empty()) {
    Sequence& s = sequences_.at(*waiting_.begin());
    // Tokens in flight are not known yet, and a prompt that another choice computes is worth
    // waiting for.
    if (s.in_flight > 0 || !may_start(s, plan.step)) return;
    if (running_count() >= options_.max_sequences || slots_.free_count() == 0) return;
    if (admit(s, plan)) continue;
    if (!running_.empty() || !give_up_a_share()) return;
  }
}

bool Scheduler::admit(Sequence& s, StepPlan& plan) {
  const auto it = shares_.find(s.spec.request);
  const PromptShare* share =
      it != shares_.end() && it->second.state == PromptShare::State::kHeld ? &it->second : nullptr;
  const int64_t skipped = share != nullptr ? share->positions : 0;
  if (share != nullptr) s.pages.share(pages_, share->pages, skipped);
  // Leave a page for each sequence that runs, or the newcomer would soon be preempted.
  const int64_t missing = s.pages.pages_missing(pages_, skipped, s.known());
  if (pages_.free_count() < missing + running_count()) {
    s.pages.release(pages_);
    return false;
  }
  CHECK(s.pages.prepare(pages_, skipped, s.known(), changes_));
  s.slot = *slots_.take();
  if (share != nullptr && share->snapshot >= 0)
    plan.slot_copies.push_back({share->snapshot, s.slot});
  s.phase = Sequence::Phase::kRunning;
  s.started = false;
  s.decoding = false;
  s.planned = skipped;
  s.slack = 0;
  waiting_.erase(s.id);
  running_.insert(s.id);
  if (!s.admitted) {
    s.admitted = true;
    s.cached = skipped;
    choice_started(s.spec.request);
  }
  plan_chunk(s, plan);
  return true;
}

SequenceRows& Scheduler::push_rows(Sequence& s, StepPlan& plan, int64_t count, int64_t drafts) {
  SequenceRows rows;
  rows.sequence = s.id;
  rows.slot = s.slot;
  rows.first = s.planned;
  rows.slack = s.slack;
  rows.count = count;
  rows.drafts = drafts;
  rows.starts = !s.started;
  rows.late = s.spec.late;
  rows.pages = s.pages.ids();
  s.started = true;
  ++s.in_flight;
  planned_rows_ += count;
  plan.rows.push_back(std::move(rows));
  return plan.rows.back();
}

// Pages for the positions from `planned` to `end`. Without them: false, after making way for a
// later step if it may.
bool Scheduler::reserve(Sequence& s, int64_t end, bool may_preempt) {
  while (!s.pages.prepare(pages_, s.planned, end, changes_)) {
    if (!may_preempt) return false;
    const int64_t missing = s.pages.pages_missing(pages_, s.planned, end);
    if (pages_.free_count() + pages_.returning_count() >= missing) return false;  // they come back
    if (give_up_a_share()) continue;
    const SequenceId last = *running_.rbegin();
    if (last == s.id) return false;  // those before it will end
    preempt(sequences_.at(last));
  }
  return true;
}

void Scheduler::preempt(Sequence& s) {
  leave(s);
  s.phase = Sequence::Phase::kWaiting;
  s.planned = 0;
  s.slack = 0;
  s.decoding = false;
  waiting_.insert(s.id);
  ++counts_.preemptions;
}

void Scheduler::submit(StepPlan& plan) {
  plan.page_copies = std::move(changes_.copies);
  plan.page_clears = std::move(changes_.clears);
  InFlightStep step{plan.step, {}};
  for (SequenceRows& r : plan.rows) {
    r.late = r.late && r.wants_logits;
    step.rows.push_back({r.sequence, r.count, r.drafts, r.wants_logits});
  }
  in_flight_.push_back(std::move(step));
  ++next_step_;
  ++counts_.steps;
  pages_.step_submitted();
  slots_.step_submitted();
  // What the plan only reads is let go after submission, so that it returns no earlier than this
  // step is done.
  for (const PageCopy& copy : plan.page_copies) pages_.drop(copy.from);
  flush_drops();
}

void Scheduler::flush_drops() {
  for (PageId id : late_page_drops_) pages_.drop(id);
  for (int32_t slot : late_slot_drops_) slots_.drop(slot);
  late_page_drops_.clear();
  late_slot_drops_.clear();
}

}  // namespace ashlar
