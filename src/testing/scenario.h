// Scenario: one scheduler story, told line by line in a small language and acted out with a fake
// runner.
//
// A line that starts with "> " is what the command before it must print; "#" starts a comment.
// Commands:
//   options pages=8 sequences=4 rows=64 context=256 depth=2 drafts=2 chunk=32 snapshots=1
//   submit NAME prompt=40 max=5 [n=2] [drafts=2] [late] [end=9] [min=2]   prints a refusal, or
//   nothing plan                      plans a step and launches it; prints the plan, or "nothing"
//   masks                     hands over the masks that the newest step waits for
//   complete [NAME=17,18 ...] reconciles the oldest step; the tokens that a sequence gets (all but
//   the last are accepted
//                             drafts), or NAME=fail. Prints how each sequence went on: "a +2", "a
//                             +1 stop", "a fail"
//   cancel NAME
//   expect KEY=VALUE ...      pages_free, pages_returning, slots_free, running, waiting, in_flight,
//   preemptions, discarded state NAME                prints what the host and the device know of a
//   running sequence
// Choices of one request are a, a.1, a.2. After every command the bookkeeping is checked.
#ifndef ASHLAR_TESTING_SCENARIO_H_
#define ASHLAR_TESTING_SCENARIO_H_

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/scheduler.h"
#include "testing/fake_runner.h"

namespace ashlar {

class Scenario {
 public:
  // Changes the runner's options before it is made: a planted bug.
  using Plant = std::function<void(FakeRunnerOptions&)>;
  explicit Scenario(Plant plant = {}) : plant_(std::move(plant)) {}

  // Acts out a whole text. Returns the first difference or fault, with its line number, or "".
  std::string play(const std::string& text);

 private:
  struct Command {
    std::string verb;
    std::string name;                // the first word without '='
    std::vector<std::string> flags;  // further such words
    std::map<std::string, std::string> pairs;
    int64_t number(const std::string& key, int64_t otherwise) const;
    bool has(const std::string& flag) const;
  };

  static Command parse(const std::string& line);
  std::string run(const Command& command);
  std::string options(const Command& command);
  std::string submit(const Command& command);
  std::string plan();
  std::string complete(const Command& command);
  std::string expect(const Command& command);
  std::string state(const std::string& name);
  std::string problem() const;
  std::string name_of(SequenceId id) const;
  SequenceId id_of(const std::string& name) const;
  void sample(const StepPlan& plan);

  Plant plant_;
  std::optional<Scheduler> scheduler_;
  std::optional<FakeRunner> runner_;
  std::map<SequenceId, std::string> names_;
  std::deque<StepPlan> in_flight_;
  bool unsampled_ = false;
  int64_t requests_ = 0;
  int64_t step_rows_ = 0;
};

}  // namespace ashlar

#endif  // ASHLAR_TESTING_SCENARIO_H_
