// Thousands of short random stories: arrivals, lengths, choices, drafts, late masks, cancels,
// failures and page pressure from a seeded generator. After every move the bookkeeping is
// consistent, and in the end every request has ended, every page and slot is free, and every token
// is the one that the sequence would have got alone.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

#include "engine/scheduler.h"
#include "testing/fake_runner.h"
#include "testing/schedule_check.h"

namespace ashlar {
namespace {

constexpr int32_t kVocabulary = 50;
constexpr int32_t kEnd = 7;
constexpr int64_t kMaxDrafts = 3;

class RandomStory {
 public:
  explicit RandomStory(uint64_t seed)
      : random_(seed), scheduler_(make_options()), runner_(fake_options()) {}

  // "" or what went wrong.
  std::string play() {
    for (int64_t move = 0; move < 60 && wrong_.empty(); ++move) make_move();
    // No more arrivals: everything must end by itself.
    for (int64_t move = 0; !scheduler_.idle() && wrong_.empty(); ++move) {
      if (move > 20000) return "some request does not end";
      if (!launch() && !complete()) return "nothing can be done, but requests are left";
      check();
    }
    if (wrong_.empty() && scheduler_.pages().free_count() != scheduler_.pages().size())
      return "a page leaked";
    if (wrong_.empty() && scheduler_.slots().free_count() != scheduler_.slots().size())
      return "a slot leaked";
    if (wrong_.empty() && ended_ != started_) return "a request did not end";
    return wrong_;
  }

  const SchedulerCounts& counts() const { return scheduler_.counts(); }

 private:
  int64_t roll(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool chance(int percent) { return roll(1, 100) <= percent; }

  SchedulerOptions make_options() {
    SchedulerOptions o;
    o.pages = static_cast<int32_t>(chance(50) ? roll(2, 6) : roll(2, 14));
    o.max_sequences = static_cast<int32_t>(roll(1, 5));
    o.step_rows = o.max_sequences * (1 + kMaxDrafts) + roll(0, 60);
    o.max_context = roll(20, 300);
    o.depth = roll(1, 2);
    o.chunk_positions = chance(40) ? 32 : 0;
    o.snapshot_slots = o.chunk_positions > 0 ? static_cast<int32_t>(roll(0, 2)) : 0;
    options_ = o;
    return o;
  }
  FakeRunnerOptions fake_options() const {
    FakeRunnerOptions f;
    f.pages = options_.pages;
    f.slots = options_.max_sequences + options_.snapshot_slots;
    f.drafts = kMaxDrafts;
    f.chunk_positions = options_.chunk_positions;
    f.vocabulary = kVocabulary;
    return f;
  }

  void make_move() {
    const int64_t dice = roll(1, 100);
    if (dice <= 18) {
      submit();
    } else if (dice <= 60) {
      launch();
    } else if (dice <= 95) {
      complete();
    } else {
      cancel();
    }
    check();
  }

  void submit() {
    SequenceSpec spec;
    spec.request = requests_++;
    const int64_t length = chance(30) ? 32 * roll(1, 3) : roll(1, 90);
    for (int64_t i = 0; i < length; ++i)
      spec.prompt.push_back(static_cast<int32_t>(roll(0, kVocabulary - 1)));
    spec.stop.max_tokens = chance(30) ? roll(1, 3) : roll(1, 150);
    if (chance(30)) spec.stop.end_tokens = {kEnd};
    spec.stop.min_tokens = roll(0, 3);
    spec.drafts = chance(40) ? roll(1, kMaxDrafts) : 0;
    spec.late = chance(15);
    if (!scheduler_.check(spec)) return;
    const int64_t choices = chance(25) ? roll(2, 4) : 1;
    const SequenceId first = scheduler_.add(spec, choices);
    for (int64_t c = 0; c < choices; ++c) wishes_[first + c] = {spec, c, {}};
    started_ += choices;
  }

  bool launch() {
    if (scheduler_.in_flight() >= options_.depth || unsampled_) return false;
    const StepPlan plan = scheduler_.plan();
    if (plan.empty()) return false;
    note(plan_problem(plan, options_.step_rows));
    for (const SequenceRows& rows : plan.rows) {
      if (!rows.starts) continue;
      const Sequence& s = *scheduler_.find(rows.sequence);
      SlotSetup setup;
      setup.seed = s.spec.request;
      setup.choice = s.spec.choice;
      setup.tokens = s.tokens;
      setup.prompt_tokens = s.prompt_tokens();
      runner_.set_slot(rows.slot, setup);
    }
    runner_.forward(plan);
    in_flight_.push_back(plan);
    unsampled_ = plan.waits_for_masks();
    if (!unsampled_ || in_flight_.size() == 1) sample();
    return true;
  }

  void sample() {
    StepMasks masks;
    masks.words = 1;
    for (const SequenceRows& rows : in_flight_.back().rows) {
      if (rows.late) masks.bits.push_back(~0u);
    }
    runner_.sample(in_flight_.back(), masks);
    unsampled_ = false;
  }

  bool complete() {
    if (in_flight_.empty()) return false;
    for (const SequenceRows& rows : in_flight_.front().rows) {
      if (rows.wants_logits && chance(1)) runner_.script_failure(rows.sequence);
    }
    const StepResult result = *runner_.wait();
    in_flight_.pop_front();
    size_t next = 0;
    for (const Outcome& outcome : scheduler_.reconcile(result)) {
      while (result.rows[next].sequence != outcome.sequence) ++next;
      take(outcome, result.rows[next]);
    }
    if (unsampled_) sample();
    return true;
  }

  void take(const Outcome& outcome, const SequenceResult& result) {
    Wish& wish = wishes_.at(outcome.sequence);
    if (outcome.finish != FinishReason::kNone) ++ended_;
    std::vector<int32_t> tokens = wish.spec.prompt;
    tokens.insert(tokens.end(), wish.output.begin(), wish.output.end());
    for (int64_t i = 0; i < outcome.appended; ++i) {
      const int32_t token = result.tokens[static_cast<size_t>(i)].token;
      const int32_t wanted =
          FakeRunner::next_token(tokens, wish.spec.request, wish.choice, kVocabulary);
      if (token != wanted)
        note(fmt::format("sequence {}: token {} instead of {}", outcome.sequence, token, wanted));
      tokens.push_back(token);
      wish.output.push_back(token);
    }
  }

  void cancel() {
    if (wishes_.empty()) return;
    const SequenceId id = roll(0, static_cast<int64_t>(wishes_.size()) - 1);
    const Sequence* s = scheduler_.find(id);
    if (s == nullptr || s->finished()) return;
    scheduler_.finish(id);
    ++ended_;
  }

  void check() {
    note(schedule_problem(scheduler_, in_flight_));
    note(runner_.fault());
  }
  void note(const std::string& text) {
    if (wrong_.empty()) wrong_ = text;
  }

  struct Wish {
    SequenceSpec spec;
    int64_t choice;
    std::vector<int32_t> output;
  };

  std::mt19937_64 random_;
  SchedulerOptions options_;
  Scheduler scheduler_;
  FakeRunner runner_;
  std::map<SequenceId, Wish> wishes_;
  std::deque<StepPlan> in_flight_;
  bool unsampled_ = false;
  int64_t requests_ = 0;
  int64_t started_ = 0;
  int64_t ended_ = 0;
  std::string wrong_;
};

TEST(RandomSchedule, KeepsEveryRule) {
  int64_t preemptions = 0;
  int64_t discarded = 0;
  int64_t steps = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    RandomStory story(seed);
    ASSERT_EQ(story.play(), "") << "seed " << seed;
    preemptions += story.counts().preemptions;
    discarded += story.counts().discarded_rows;
    steps += story.counts().steps;
  }
  // The stories must be about something.
  EXPECT_GT(steps, 100000);
  EXPECT_GT(preemptions, 1000);
  EXPECT_GT(discarded, 1000);
}

}  // namespace
}  // namespace ashlar
