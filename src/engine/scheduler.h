// Scheduler: decides what each step computes. A plain value without clock, thread or device: the
// same calls in the same order give the same plans, and a copy can be asked "what if".
//
// Policy: sequences that decode come first, then chunks of prompts that run, then admissions, each
// in order of arrival, within a row budget. A sequence gets the pages of all its known tokens when
// it is admitted and one more whenever it grows into it. When pages run out, prompt pages kept for
// choices to come are given up, then the latest arrival is preempted: it loses its pages, waits,
// and later recomputes all its tokens, which gives the same bits. Whoever runs arrived before
// whoever waits, so the oldest sequence always progresses.
//
// Steps may be in flight while the next is planned. A sequence that ends while rows of it are in
// flight is not planned again; the results of those rows are discarded, and its pages and slot
// return when the steps are reconciled.
#ifndef ASHLAR_ENGINE_SCHEDULER_H_
#define ASHLAR_ENGINE_SCHEDULER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "cache/page_list.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"
#include "engine/step_result.h"

namespace ashlar {

struct SchedulerOptions {
  int32_t pages = 0;
  int32_t max_sequences = 1;
  int32_t snapshot_slots = 0;  // beyond those of sequences, for models with recurrent state
  int64_t step_rows = 1;       // at least max_sequences * (1 + drafts of any sequence)
  int64_t max_context = 0;
  int64_t depth = 1;            // steps in flight
  bool clear_pages = false;     // pages hold anything at the start: clear each before its first use
  int64_t chunk_positions = 0;  // C of recurrent layers; 0: the model has none
};

// What reconcile() did with the result of one sequence.
struct Outcome {
  SequenceId sequence = 0;
  int64_t appended = 0;  // of the result's tokens, the first so many were taken
  FinishReason finish = FinishReason::kNone;
};

struct SchedulerCounts {
  int64_t steps = 0;
  int64_t prompt_rows = 0;  // recomputed ones after a preemption included
  int64_t decode_rows = 0;
  int64_t preemptions = 0;
  int64_t discarded_rows = 0;
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);

  // Why a sequence could never run, or success: a prompt beyond the context or the pages, a worst
  // case beyond the pages.
  Status check(const SequenceSpec& spec) const;

  // Takes the choices of one request, which must have passed check(). Returns the id of choice 0;
  // others follow it.
  SequenceId add(SequenceSpec spec, int64_t choices = 1);

  // The next step, or an empty plan when nothing can run before a step in flight is reconciled. At
  // most depth in flight.
  StepPlan plan();

  // Takes the result of the oldest step in flight.
  std::vector<Outcome> reconcile(const StepResult& result);

  // Ends a sequence from outside: cancelled, a stop string. No effect on one that has ended.
  void finish(SequenceId id);

  // A sequence until it has ended and no step in flight has rows of it; then nullptr.
  const Sequence* find(SequenceId id) const;

  int64_t running_count() const { return static_cast<int64_t>(running_.size()); }
  int64_t waiting_count() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t in_flight() const { return static_cast<int64_t>(in_flight_.size()); }
  bool idle() const { return sequences_.empty() && in_flight_.empty(); }
  const PagePool& pages() const { return pages_; }
  const SlotPool& slots() const { return slots_; }
  int64_t depth() const { return options_.depth; }
  const SchedulerCounts& counts() const { return counts_; }

  // The first violated rule of the bookkeeping, or "". For tests.
  std::string inconsistency() const;

 private:
  // The prompt's pages of a request with several choices, held until each choice has started.
  struct PromptShare {
    enum class State : uint8_t { kPending, kHeld, kDropped };
    State state = State::kPending;
    int64_t unstarted = 0;   // choices that were never admitted
    int64_t positions = 0;   // what a choice may skip
    int64_t ready_step = 0;  // first step that may read the pages
    PageList pages;
    int32_t snapshot = -1;  // slot that keeps the recurrent state at `positions`
  };
  struct InFlightRows {
    SequenceId sequence;
    int64_t count;
    int64_t drafts;
    bool wants_logits;
  };
  struct InFlightStep {
    int64_t step;
    std::vector<InFlightRows> rows;
  };

  void plan_decode(StepPlan& plan);
  void plan_prompts(StepPlan& plan);
  void plan_admissions(StepPlan& plan);
  bool admit(Sequence& s, StepPlan& plan);
  void plan_chunk(Sequence& s, StepPlan& plan);
  bool reserve(Sequence& s, int64_t end, bool may_preempt);
  void preempt(Sequence& s);
  void submit(StepPlan& plan);
  void flush_drops();
  SequenceRows& push_rows(Sequence& s, StepPlan& plan, int64_t count, int64_t drafts);

  int64_t offered_positions(const Sequence& s) const;
  void offer_prompt(Sequence& s, StepPlan& plan);
  bool may_start(const Sequence& s, int64_t step) const;
  void choice_started(RequestId request);
  bool give_up_a_share();
  void drop_share(RequestId request, PromptShare& share);

  void end(Sequence& s);
  void leave(Sequence& s);
  Outcome take_result(Sequence& s, const InFlightRows& rows, const SequenceResult& result);
  int64_t rows_left() const { return options_.step_rows - planned_rows_; }

  SchedulerOptions options_;
  PagePool pages_;
  SlotPool slots_;
  std::map<SequenceId, Sequence> sequences_;
  std::set<SequenceId> running_;
  std::set<SequenceId> waiting_;
  std::map<RequestId, PromptShare> shares_;
  std::set<RequestId> held_shares_;  // those in state kHeld: few, when thousands wait
  std::deque<InFlightStep> in_flight_;
  PageChanges changes_;                  // of the plan being made
  int64_t planned_rows_ = 0;             // in it
  std::vector<PageId> late_page_drops_;  // counts to drop once the plan being made is submitted
  std::vector<int32_t> late_slot_drops_;
  SequenceId next_id_ = 0;
  int64_t next_step_ = 0;
  SchedulerCounts counts_;
};

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_SCHEDULER_H_
