// Parsing and acting out of scenarios.
#include "testing/scenario.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "base/check.h"
#include "testing/schedule_check.h"

namespace ashlar {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

}  // namespace

int64_t Scenario::Command::number(const std::string& key, int64_t otherwise) const {
  const auto it = pairs.find(key);
  return it == pairs.end() ? otherwise : std::stoll(it->second);
}

bool Scenario::Command::has(const std::string& flag) const {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

Scenario::Command Scenario::parse(const std::string& line) {
  Command command;
  for (const std::string& word : split(line, ' ')) {
    const size_t equals = word.find('=');
    if (command.verb.empty()) {
      command.verb = word;
    } else if (equals != std::string::npos) {
      command.pairs[word.substr(0, equals)] = word.substr(equals + 1);
    } else if (command.name.empty()) {
      command.name = word;
    } else {
      command.flags.push_back(word);
    }
  }
  return command;
}

std::string Scenario::play(const std::string& text) {
  const std::vector<std::string> lines = [&] {
    std::vector<std::string> all;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) all.push_back(line);
    return all;
  }();
  for (size_t at = 0; at < lines.size();) {
    const size_t command_at = at;
    const std::string& line = lines[at++];
    if (line.empty() || line[0] == '#') continue;
    std::string wanted;
    while (at < lines.size() && lines[at].starts_with("> ")) wanted += lines[at++].substr(2) + "\n";
    const std::string got = run(parse(line));
    if (got != wanted) {
      return fmt::format("line {}: {}\nwanted:\n{}got:\n{}", command_at + 1, line, wanted, got);
    }
    if (const std::string wrong = problem(); !wrong.empty()) {
      return fmt::format("line {}: {}\n{}\n", command_at + 1, line, wrong);
    }
  }
  return {};
}

std::string Scenario::problem() const {
  if (!scheduler_) return {};
  if (!runner_->fault().empty()) return "fault: " + runner_->fault();
  return schedule_problem(*scheduler_, in_flight_);
}

std::string Scenario::run(const Command& command) {
  if (command.verb == "options") return options(command);
  if (!scheduler_) return "no options yet\n";
  if (command.verb == "submit") return submit(command);
  if (command.verb == "plan") return plan();
  if (command.verb == "complete") return complete(command);
  if (command.verb == "expect") return expect(command);
  if (command.verb == "state") return state(command.name);
  if (command.verb == "masks") {
    sample(in_flight_.back());
    return {};
  }
  if (command.verb == "cancel") {
    scheduler_->finish(id_of(command.name));
    return {};
  }
  return fmt::format("unknown command {}\n", command.verb);
}

std::string Scenario::options(const Command& command) {
  SchedulerOptions options;
  options.pages = static_cast<int32_t>(command.number("pages", 8));
  options.max_sequences = static_cast<int32_t>(command.number("sequences", 4));
  options.snapshot_slots = static_cast<int32_t>(command.number("snapshots", 0));
  options.step_rows = command.number("rows", 64);
  options.max_context = command.number("context", 1000);
  options.depth = command.number("depth", 1);
  options.chunk_positions = command.number("chunk", 0);
  scheduler_.emplace(options);
  FakeRunnerOptions fake;
  fake.pages = options.pages;
  fake.slots = options.max_sequences + options.snapshot_slots;
  fake.drafts = command.number("drafts", 0);
  fake.chunk_positions = options.chunk_positions;
  if (plant_) plant_(fake);
  runner_.emplace(fake);
  step_rows_ = options.step_rows;
  return {};
}

std::string Scenario::submit(const Command& command) {
  SequenceSpec spec;
  spec.request = requests_++;
  for (int64_t i = 0; i < command.number("prompt", 1); ++i) {
    spec.prompt.push_back(static_cast<int32_t>(spec.request * 1000 + i));
  }
  spec.stop.max_tokens = command.number("max", 1);
  spec.stop.min_tokens = command.number("min", 0);
  if (command.pairs.count("end") > 0) {
    spec.stop.end_tokens = {static_cast<int32_t>(command.number("end", 0))};
  }
  spec.drafts = command.number("drafts", 0);
  spec.late = command.has("late");
  const Status status = scheduler_->check(spec);
  if (!status) return status.error().message + "\n";
  const int64_t choices = command.number("n", 1);
  const SequenceId first = scheduler_->add(spec, choices);
  for (int64_t c = 0; c < choices; ++c) {
    names_[first + c] = c == 0 ? command.name : fmt::format("{}.{}", command.name, c);
  }
  return {};
}

std::string Scenario::plan() {
  if (scheduler_->in_flight() >= scheduler_->depth()) return "too many steps in flight\n";
  if (unsampled_) return "the step before waits for masks\n";
  // A plan is a function of the scheduler's state: a copy must decide the same.
  Scheduler copy = *scheduler_;
  const StepPlan plan = scheduler_->plan();
  if (!(copy.plan() == plan)) return "a copy of the scheduler made another plan\n";
  if (plan.empty()) return "nothing\n";
  if (const std::string wrong = plan_problem(plan, step_rows_); !wrong.empty()) return wrong + "\n";
  for (const SequenceRows& rows : plan.rows) {
    if (!rows.starts) continue;
    const Sequence& s = *scheduler_->find(rows.sequence);
    SlotSetup setup;
    setup.choice = s.spec.choice;
    setup.tokens = s.tokens;
    setup.prompt_tokens = s.prompt_tokens();
    runner_->set_slot(rows.slot, setup);
  }
  runner_->forward(plan);
  in_flight_.push_back(plan);
  unsampled_ = plan.waits_for_masks();
  if (!unsampled_) sample(plan);
  return plan.text([this](SequenceId id) { return name_of(id); });
}

void Scenario::sample(const StepPlan& plan) {
  StepMasks masks;
  masks.words = 1;
  for (const SequenceRows& rows : plan.rows) {
    if (rows.late) masks.bits.push_back(~0u);
  }
  runner_->sample(plan, masks);
  unsampled_ = false;
}

std::string Scenario::complete(const Command& command) {
  if (in_flight_.empty()) return "no step in flight\n";
  if (unsampled_ && in_flight_.size() == 1) return "the step waits for masks\n";
  for (const auto& [name, tokens] : command.pairs) {
    const SequenceId id = id_of(name);
    if (tokens == "fail") {
      runner_->script_failure(id);
      continue;
    }
    std::vector<int32_t> list;
    for (const std::string& token : split(tokens, ',')) list.push_back(std::stoi(token));
    runner_->script(id, list);
  }
  const StepResult result = *runner_->wait();
  in_flight_.pop_front();
  std::string out;
  for (const Outcome& outcome : scheduler_->reconcile(result)) {
    out += name_of(outcome.sequence);
    if (outcome.appended > 0) out += fmt::format(" +{}", outcome.appended);
    if (outcome.finish != FinishReason::kNone)
      out += fmt::format(" {}", finish_reason_name(outcome.finish));
    out += "\n";
  }
  return out;
}

std::string Scenario::expect(const Command& command) {
  const Scheduler& s = *scheduler_;
  const std::map<std::string, int64_t> values = {
      {"pages_free", s.pages().free_count()},  {"pages_returning", s.pages().returning_count()},
      {"slots_free", s.slots().free_count()},  {"running", s.running_count()},
      {"waiting", s.waiting_count()},          {"in_flight", s.in_flight()},
      {"preemptions", s.counts().preemptions}, {"discarded", s.counts().discarded_rows},
  };
  std::string out;
  for (const auto& [key, wanted] : command.pairs) {
    const auto it = values.find(key);
    if (it == values.end()) return fmt::format("unknown value {}\n", key);
    if (std::to_string(it->second) != wanted) out += fmt::format("{}={}\n", key, it->second);
  }
  return out;
}

std::string Scenario::state(const std::string& name) {
  const Sequence* s = scheduler_->find(id_of(name));
  if (s == nullptr) return "gone\n";
  if (s->phase == Sequence::Phase::kWaiting) return fmt::format("waiting known={}\n", s->known());
  if (s->finished()) return fmt::format("finished in_flight={}\n", s->in_flight);
  std::string out = fmt::format("known={} planned={}", s->known(), s->planned);
  if (s->slack > 0) out += fmt::format("+0..{}", s->slack);
  const ChunkCursor& device = runner_->cursor(s->slot);
  out += fmt::format(" device: length={}", device.length);
  if (scheduler_->slots().size() > 0 && device.base > 0) {
    out += fmt::format(" base={} tail={}", device.base, device.tail());
  }
  return out + "\n";
}

std::string Scenario::name_of(SequenceId id) const { return names_.at(id); }

SequenceId Scenario::id_of(const std::string& name) const {
  for (const auto& [id, own] : names_) {
    if (own == name) return id;
  }
  CHECK(false);
  return -1;
}

}  // namespace ashlar
