// Steps acted out on cells that remember which token of which position was written into them.
#include "testing/fake_runner.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "cache/page_list.h"

namespace ashlar {
namespace {

uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15u;
  return h ^ (h >> 29);
}

uint64_t hash_of(std::span<const int32_t> tokens) {
  uint64_t h = 1;
  for (int32_t t : tokens) h = mix(h, static_cast<uint64_t>(t));
  return h;
}

}  // namespace

FakeRunner::FakeRunner(const FakeRunnerOptions& options) : options_(options) {
  pages_.assign(static_cast<size_t>(options.pages), std::vector<Cell>(kPagePositions));
  slots_.resize(static_cast<size_t>(options.slots));
}

int32_t FakeRunner::next_token(std::span<const int32_t> tokens, int64_t seed, int64_t choice,
                               int32_t vocabulary) {
  const uint64_t h =
      mix(mix(hash_of(tokens), static_cast<uint64_t>(seed)), static_cast<uint64_t>(choice));
  return static_cast<int32_t>((h >> 20) % static_cast<uint64_t>(vocabulary));
}

void FakeRunner::report(std::string text) {
  if (fault_.empty()) fault_ = std::move(text);
}

void FakeRunner::set_slot(int32_t slot, const SlotSetup& setup) {
  Slot state;
  state.tokens.assign(setup.tokens.begin(), setup.tokens.end());
  state.seed = setup.seed;
  state.choice = setup.choice;
  setups_.push_back({slot, std::move(state)});
}

void FakeRunner::forward(const StepPlan& plan) {
  if (!submitted_.empty() && !submitted_.back().sampled) {
    report(fmt::format("step {} was launched before the sample part of the step before it",
                       plan.step));
  }
  submitted_.push_back({plan, std::move(setups_), host_mirror_, false});
  setups_.clear();
}

void FakeRunner::sample(const StepPlan& plan, const StepMasks& masks) {
  CHECK(!submitted_.empty() && submitted_.back().plan.step == plan.step);
  submitted_.back().sampled = true;
  int64_t late = 0;
  for (const SequenceRows& r : plan.rows) late += r.late ? 1 : 0;
  if (static_cast<int64_t>(masks.bits.size()) != late * masks.words) {
    report(fmt::format("step {} needs {} masks", plan.step, late));
  }
}

Result<StepResult> FakeRunner::wait() {
  CHECK(!submitted_.empty());
  const Submitted step = std::move(submitted_.front());
  submitted_.pop_front();
  if (!step.sampled) report(fmt::format("step {} is waited for without its masks", step.plan.step));
  for (const Setup& setup : step.setups) {
    Slot& slot = slots_[static_cast<size_t>(setup.slot)];
    slot = setup.state;
    const int64_t ring = options_.chunk_positions + options_.drafts + 1;
    slot.tail.assign(static_cast<size_t>(options_.chunk_positions > 0 ? ring : 0), Cell{});
    slot.folded = hash_of({});
  }
  for (const PageCopy& c : step.plan.page_copies) pages_[c.to] = pages_[c.from];
  for (const SlotCopy& c : step.plan.slot_copies) {
    // Recurrent state only: what the sequence is and knows stays its own.
    Slot& to = slots_[c.to];
    to.cursor = slots_[c.from].cursor;
    to.folded = slots_[c.from].folded;
    to.tail = slots_[c.from].tail;
  }
  for (PageId page : step.plan.page_clears) pages_[page].assign(kPagePositions, Cell{});
  StepResult result;
  result.step = step.plan.step;
  for (const SequenceRows& rows : step.plan.rows) run_rows(rows, step, result);
  for (const SlotCopy& c : step.plan.slot_copies_after) slots_[c.to] = slots_[c.from];
  for (const SequenceRows& rows : step.plan.rows) host_mirror_[rows.slot] = slots_[rows.slot].feed;
  scripts_.clear();
  failures_.clear();
  return result;
}

FakeRunner::Cell& FakeRunner::cell(const SequenceRows& rows, int64_t position) {
  static Cell nowhere;
  const size_t index = static_cast<size_t>(position / kPagePositions);
  if (index >= rows.pages.size()) {
    report(fmt::format("sequence {}: position {} lies past its {} pages", rows.sequence, position,
                       rows.pages.size()));
    return nowhere;
  }
  return pages_[static_cast<size_t>(rows.pages[index])]
               [static_cast<size_t>(position % kPagePositions)];
}

void FakeRunner::check_history(const SequenceRows& rows, const Slot& slot, int64_t first) {
  for (int64_t p = 0; p < first; ++p) {
    const Cell& c = cell(rows, p);
    if (c.position == p && c.token == slot.tokens[static_cast<size_t>(p)]) continue;
    report(fmt::format(
        "sequence {}: position {} should hold token {}, but its page holds token {} of position {}",
        rows.sequence, p, slot.tokens[static_cast<size_t>(p)], c.token, c.position));
    return;
  }
}

void FakeRunner::run_rows(const SequenceRows& rows, const Submitted& step, StepResult& result) {
  Slot& slot = slots_[static_cast<size_t>(rows.slot)];
  if (rows.starts) {
    // Recurrent state that was not copied is empty and stands at 0 only.
    if (options_.chunk_positions > 0 && slot.cursor.length != rows.first) {
      report(fmt::format("sequence {} starts at {} without the state before it", rows.sequence,
                         rows.first));
    }
    slot.cursor.length = rows.first;
  }
  const int64_t first = slot.cursor.length;
  if (first < rows.first || first > rows.first + rows.slack) {
    report(fmt::format("sequence {}: length {} is not within {} to {}", rows.sequence, first,
                       rows.first, rows.first + rows.slack));
    return;
  }
  if (rows.fed && rows.starts)
    report(fmt::format("sequence {}: a new slot has no token", rows.sequence));
  check_history(rows, slot, first);

  // Tokens of the rows, as the device would read them.
  std::vector<int32_t> tokens = rows.tokens;
  if (rows.fed) {
    const auto mirror = step.mirror.find(rows.slot);
    const bool stale = options_.plant_stale_token && mirror != step.mirror.end();
    tokens = {stale ? mirror->second : slot.feed};
    const auto script = scripts_.find(rows.sequence);
    if (script != scripts_.end()) {
      slot.drafts = script->second;
      slot.drafts.back() = -2;  // the last scripted token is no draft
    }
    slot.drafts.resize(static_cast<size_t>(rows.drafts), -2);
    tokens.insert(tokens.end(), slot.drafts.begin(), slot.drafts.end());
  }
  for (int64_t i = 0; i < rows.count; ++i) {
    const int64_t p = first + i;
    const int32_t token = tokens[static_cast<size_t>(i)];
    if (i < rows.committed() && token != slot.tokens[static_cast<size_t>(p)]) {
      report(fmt::format("sequence {}: the row at {} got token {} instead of {}", rows.sequence, p,
                         token, slot.tokens[static_cast<size_t>(p)]));
    }
    cell(rows, p) = {token, p};
    if (options_.chunk_positions > 0) {
      // A chunk is folded by the first committed row at or past its end.
      if (i < rows.committed() || options_.plant_eager_fold) {
        fold(slot, chunk_base(p, options_.chunk_positions), rows);
      }
      slot.tail[static_cast<size_t>(p) % slot.tail.size()] = {token, p};
    }
  }
  if (!rows.wants_logits) {
    slot.cursor.length += rows.count;
    return;
  }
  SequenceResult own;
  own.sequence = rows.sequence;
  choose(rows, slot, own);
  result.rows.push_back(std::move(own));
}

void FakeRunner::fold(Slot& slot, int64_t to, const SequenceRows& rows) {
  for (int64_t p = slot.cursor.base; p < to; ++p) {
    if (p >= static_cast<int64_t>(slot.tokens.size())) {
      report(fmt::format("sequence {}: position {} was folded before its token was certain",
                         rows.sequence, p));
      return;
    }
    const Cell& c = slot.tail[static_cast<size_t>(p) % slot.tail.size()];
    if (c.position != p || c.token != slot.tokens[static_cast<size_t>(p)]) {
      report(fmt::format("sequence {}: position {} was folded with token {} of position {}",
                         rows.sequence, p, c.token, c.position));
    }
    slot.folded = mix(slot.folded, static_cast<uint64_t>(c.token));
  }
  slot.cursor.base = std::max(slot.cursor.base, to);
  const std::span<const int32_t> before(slot.tokens.data(), static_cast<size_t>(slot.cursor.base));
  if (slot.folded != hash_of(before)) {
    report(fmt::format("sequence {}: the state before {} is not that of its tokens", rows.sequence,
                       slot.cursor.base));
  }
}

void FakeRunner::choose(const SequenceRows& rows, Slot& slot, SequenceResult& result) {
  slot.cursor.length += rows.committed();
  if (failures_.count(rows.sequence) > 0) {
    result.failure = "scripted";
    slot.tokens.push_back(0);
    slot.feed = 0;
    return;
  }
  const auto script = scripts_.find(rows.sequence);
  for (int64_t i = 0;; ++i) {
    const int32_t token = script != scripts_.end() ? script->second[static_cast<size_t>(i)]
                                                   : next_token(slot.tokens, slot.seed, slot.choice,
                                                                options_.vocabulary);
    slot.tokens.push_back(token);
    slot.feed = token;
    result.tokens.push_back({token, 0, {}});
    if (i == rows.drafts || slot.drafts[static_cast<size_t>(i)] != token) break;
    ++slot.cursor.length;
  }
  slot.drafts = proposed(slot);
}

// Drafts that are right up to a place that the tokens decide.
std::vector<int32_t> FakeRunner::proposed(const Slot& slot) const {
  std::vector<int32_t> tokens = slot.tokens;
  std::vector<int32_t> drafts;
  const int64_t right = options_.drafts > 0 ? hash_of(tokens) >> 11 & 3 : 0;
  for (int64_t i = 0; i < options_.drafts; ++i) {
    const int32_t token = next_token(tokens, slot.seed, slot.choice, options_.vocabulary);
    drafts.push_back(i < right ? token : (token + 1) % options_.vocabulary);
    tokens.push_back(token);
  }
  return drafts;
}

}  // namespace ashlar
