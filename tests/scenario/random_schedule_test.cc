// Thousands of short random stories: arrivals, lengths, choices, drafts, late masks, cancels,
// failures and page pressure from a seeded generator. After every move the bookkeeping is
// consistent, pages are shared within a request only, and the oldest sequence is neither preempted
// nor held up for more than a few steps. In the end every sequence has ended once, every page and
// slot is free, and every token is the one that the sequence would have got alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>

#include "engine/scheduler.h"
#include "testing/fake_runner.h"
#include "testing/schedule_check.h"

namespace ashlar {
namespace {

constexpr int32_t kVocabulary = 50;
constexpr int32_t kEnd = 7;
constexpr int64_t kMaxDrafts = 3;
// Plans without it, one after the other: it waits for a token or for pages in flight.
constexpr int64_t kMostHeldUp = 1;

class RandomStory {
 public:
  using Plant = std::function<void(FakeRunnerOptions&)>;
  explicit RandomStory(uint64_t seed, const Plant& plant = {})
      : random_(seed), scheduler_(make_options()), runner_(fake_options(plant)) {}

  // "" or what went wrong.
  std::string play() {
    for (int64_t move = 0; move < 60 && wrong_.empty(); ++move) make_move();
    // No more arrivals: everything must end by itself.
    for (int64_t move = 0; !scheduler_.idle() && wrong_.empty(); ++move) {
      if (move > 20000) return "some request does not end";
      if (!launch() && !complete()) return "nothing can be done, but requests are left";
      if (chance(2)) cancel();
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
  const std::map<std::string, int64_t>& told() const { return told_; }

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
  FakeRunnerOptions fake_options(const Plant& plant) const {
    FakeRunnerOptions f;
    f.pages = options_.pages;
    f.slots = options_.max_sequences + options_.snapshot_slots;
    f.drafts = kMaxDrafts;
    f.chunk_positions = options_.chunk_positions;
    f.vocabulary = kVocabulary;
    if (plant) plant(f);
    return f;
  }

  void make_move() {
    const int64_t dice = roll(1, 100);
    if (dice <= 18) {
      submit();
    } else if (dice <= 58) {
      launch();
    } else if (dice <= 92) {
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
    for (int64_t c = 0; c < choices; ++c) open_.insert(first + c);
    started_ += choices;
  }

  bool launch() {
    if (scheduler_.in_flight() >= options_.depth || unsampled_) return false;
    const StepPlan plan = scheduler_.plan();
    if (plan.empty()) {
      if (in_flight_.empty() && !scheduler_.idle()) note("nothing is planned, nothing in flight");
      return false;
    }
    note(plan_problem(plan, options_.step_rows));
    see_oldest(plan);
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
    if (outcome.finish != FinishReason::kNone) end(outcome.sequence);
    if (outcome.appended > 1) ++told_["a draft accepted"];
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

  // One choice, or all choices of its request.
  void cancel() {
    if (wishes_.empty()) return;
    SequenceId chosen = roll(0, static_cast<int64_t>(wishes_.size()) - 1);
    // Preempted ones are few: they get their share.
    for (SequenceId id : open_) {
      const Sequence& s = *scheduler_.find(id);
      if (s.admitted && s.phase == Sequence::Phase::kWaiting && chance(50)) chosen = id;
    }
    const RequestId request = wishes_.at(chosen).spec.request;
    const bool whole = chance(50);
    for (const auto& [id, wish] : wishes_) {
      if (id != chosen && !(whole && wish.spec.request == request)) continue;
      const Sequence* s = scheduler_.find(id);
      if (s == nullptr || s->finished()) continue;
      const bool waits = s->phase == Sequence::Phase::kWaiting;
      ++told_[waits ? (s->admitted ? "cancelled while preempted" : "cancelled while waiting")
                    : (s->decoding ? "cancelled while decoding" : "cancelled in its prompt")];
      if (s->in_flight > 0) ++told_["cancelled in flight"];
      scheduler_.finish(id);
      end(id);
    }
  }

  void end(SequenceId id) {
    ++ended_;
    if (open_.erase(id) == 0) note(fmt::format("sequence {} ended twice", id));
  }

  // The oldest sequence must have rows in this plan or in one of the next few: it may wait for a
  // token or for pages in flight, but not for others.
  void see_oldest(const StepPlan& plan) {
    if (open_.empty()) return;
    const SequenceId oldest = *open_.begin();
    if (oldest != oldest_) held_up_ = 0;
    oldest_ = oldest;
    const bool in_it = std::any_of(plan.rows.begin(), plan.rows.end(),
                                   [&](const auto& rows) { return rows.sequence == oldest; });
    held_up_ = in_it ? 0 : held_up_ + 1;
    if (held_up_ == kMostHeldUp) ++told_["the oldest held up for as long as it may be"];
    if (held_up_ > kMostHeldUp) note(fmt::format("sequence {} starves", oldest));
  }

  // Pages of sequences of different requests are disjoint; the oldest is not preempted.
  void check_sequences() {
    std::map<PageId, RequestId> users;
    for (SequenceId id : open_) {
      const Sequence* s = scheduler_.find(id);
      if (s == nullptr) return note(fmt::format("sequence {} is gone without an end", id));
      for (PageId page : s->pages.ids()) {
        const auto [it, fresh] = users.emplace(page, s->spec.request);
        if (!fresh && it->second != s->spec.request) note("two requests share a page");
        if (!fresh) ++told_["a page shared"];
      }
    }
    if (open_.empty()) return;
    const bool waits = scheduler_.find(*open_.begin())->phase == Sequence::Phase::kWaiting;
    if (waits && *open_.begin() == ran_as_oldest_) note("the oldest sequence was preempted");
    ran_as_oldest_ = waits ? -1 : *open_.begin();
  }

  void check() {
    note(schedule_problem(scheduler_, in_flight_));
    note(runner_.fault());
    check_sequences();
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
  std::set<SequenceId> open_;  // not ended
  SequenceId oldest_ = -1;
  int64_t held_up_ = 0;  // steps that the oldest had no rows in
  SequenceId ran_as_oldest_ = -1;
  std::map<std::string, int64_t> told_;  // how often what happened
  std::deque<StepPlan> in_flight_;
  bool unsampled_ = false;
  int64_t requests_ = 0;
  int64_t started_ = 0;
  int64_t ended_ = 0;
  std::string wrong_;
};

TEST(RandomSchedule, KeepsEveryRule) {
  std::map<std::string, int64_t> told;
  for (uint64_t seed = 0; seed < 12000; ++seed) {
    RandomStory story(seed);
    ASSERT_EQ(story.play(), "") << "seed " << seed;
    for (const auto& [what, count] : story.told()) told[what] += count;
    told["step"] += story.counts().steps;
    told["preempted"] += story.counts().preemptions;
    told["row discarded"] += story.counts().discarded_rows;
  }
  // The stories must be about something.
  for (const auto& [what, least] : std::map<std::string, int64_t>{
           {"step", 300000},
           {"preempted", 1500},
           {"row discarded", 3000},
           {"a page shared", 3000},
           {"a draft accepted", 3000},
           {"cancelled while waiting", 1000},
           {"cancelled while preempted", 100},
           {"the oldest held up for as long as it may be", 1},
           {"cancelled while decoding", 1000},
           {"cancelled in its prompt", 300},
           {"cancelled in flight", 1000},
       }) {
    EXPECT_GT(told[what], least) << what;
  }
}

// The stories find mistakes: with a planted one, a good part of them fails.
int64_t failing(const RandomStory::Plant& plant) {
  int64_t count = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    if (!RandomStory(seed, plant).play().empty()) ++count;
  }
  return count;
}

TEST(RandomSchedule, NoticesPlantedBugs) {
  EXPECT_GT(failing([](FakeRunnerOptions& o) { o.plant_stale_token = true; }), 30);
  EXPECT_GT(failing([](FakeRunnerOptions& o) { o.plant_eager_fold = true; }), 15);
}

}  // namespace
}  // namespace ashlar
