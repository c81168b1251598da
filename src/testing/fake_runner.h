// FakeRunner: a Runner without a device, model or thread, that checks what a device could not:
// every position that a row would read must hold the right token of the right sequence, and
// recurrent state must come from committed positions only.
//
// Work is done in wait(), as late as possible: until then nobody can know a token or a length, as
// with a real device that runs behind. Tokens come from a script or else from a hash of everything
// that the row can see. Planted bugs can be switched on to see that the checks notice them.
#ifndef ASHLAR_TESTING_FAKE_RUNNER_H_
#define ASHLAR_TESTING_FAKE_RUNNER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "cache/chunk_cursor.h"
#include "engine/runner.h"

namespace ashlar {

struct FakeRunnerOptions {
  int64_t pages = 0;
  int64_t slots = 1;            // snapshots included
  int64_t drafts = 0;           // most draft rows of a step
  int64_t chunk_positions = 0;  // 0: no recurrent state
  int32_t vocabulary = 1000;
  bool plant_stale_token =
      false;  // read the newest token from a mirror that the host had when it launched the step
  bool plant_eager_fold =
      false;  // fold draft rows into the recurrent state before they are accepted
};

class FakeRunner : public Runner {
 public:
  explicit FakeRunner(const FakeRunnerOptions& options);

  void set_slot(int32_t slot, const SlotSetup& setup) override;
  void forward(const StepPlan& plan) override;
  void sample(const StepPlan& plan, const StepMasks& masks) override;
  Result<StepResult> wait() override;

  // The tokens that the sequence gets from the next step that is waited for; all but the last are
  // accepted drafts.
  void script(SequenceId sequence, std::vector<int32_t> tokens) {
    scripts_[sequence] = std::move(tokens);
  }
  // The next step that is waited for fails for the sequence.
  void script_failure(SequenceId sequence) { failures_[sequence] = true; }

  // The token after `tokens` when nothing is scripted: what the sequence would get alone.
  static int32_t next_token(std::span<const int32_t> tokens, int64_t seed, int64_t choice,
                            int32_t vocabulary);

  // The first mistake that was seen, or "".
  const std::string& fault() const { return fault_; }
  // Where the recurrent state of a slot stands on the device.
  const ChunkCursor& cursor(int32_t slot) const { return slots_[static_cast<size_t>(slot)].cursor; }

 private:
  struct Cell {
    int32_t token = -1;
    int64_t position = -1;
  };
  struct Slot {
    std::vector<int32_t> tokens;  // all that are certain: what the cells must hold
    int64_t seed = 0;
    int64_t choice = 0;
    int32_t feed = -1;  // the newest token
    std::vector<int32_t> drafts;
    ChunkCursor cursor;      // length of the sequence on the device, base of the recurrent state
    uint64_t folded = 0;     // hash of the positions before base
    std::vector<Cell> tail;  // ring by position
  };
  struct Setup {
    int32_t slot;
    Slot state;
  };
  struct Submitted {
    StepPlan plan;
    std::vector<Setup> setups;
    std::map<int32_t, int32_t> mirror;  // the newest tokens that the host knew, by slot
    bool sampled = false;
  };

  Cell& cell(const SequenceRows& rows, int64_t position);
  void run_rows(const SequenceRows& rows, const Submitted& step, StepResult& result);
  void check_history(const SequenceRows& rows, const Slot& slot, int64_t first);
  void fold(Slot& slot, int64_t to, const SequenceRows& rows);
  void choose(const SequenceRows& rows, Slot& slot, SequenceResult& result);
  std::vector<int32_t> proposed(const Slot& slot) const;
  void report(std::string text);

  FakeRunnerOptions options_;
  std::vector<std::vector<Cell>> pages_;
  std::vector<Slot> slots_;
  std::vector<Setup> setups_;  // for the next forward()
  std::map<int32_t, int32_t> host_mirror_;
  std::deque<Submitted> submitted_;
  std::map<SequenceId, std::vector<int32_t>> scripts_;
  std::map<SequenceId, bool> failures_;
  std::string fault_;
};

}  // namespace ashlar

#endif  // ASHLAR_TESTING_FAKE_RUNNER_H_
