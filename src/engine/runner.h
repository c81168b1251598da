// Runner: executes step plans on one device, in the order they come. It keeps everything that a
// step needs on the device in buffers that never move; it decides nothing.
//
// A step has two parts. forward() starts the first; sample() starts the second, and gets the masks
// that rows marked `late` wait for. Parts alternate: forward(n), sample(n), forward(n + 1), ... so
// that the tokens of step n are on the device when step n + 1 reads them. wait() blocks until the
// oldest step is done. Called by one thread.
#ifndef ASHLAR_ENGINE_RUNNER_H_
#define ASHLAR_ENGINE_RUNNER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/step_plan.h"
#include "engine/step_result.h"
#include "sampling/params.h"

namespace ashlar {

// End tokens of a sequence, at most: what a slot keeps on the device has a fixed size.
constexpr int64_t kMaxEndTokens = 256;

// What a slot is told when a sequence takes it, also when the sequence comes back after a
// preemption.
struct SlotSetup {
  SamplingParams sampling;
  int64_t seed = 0;
  int64_t choice = 0;
  std::span<const int32_t> tokens;  // all known: prompt, then output; read during the call only
  int64_t prompt_tokens = 0;
  int64_t min_tokens = 0;  // end tokens are suppressed before so many output tokens
  std::span<const int32_t> end_tokens;
};

// One mask for each row marked late, in the plan's order. Bit i % 32 of word i / 32: token i may
// come.
struct StepMasks {
  int64_t words = 0;  // of one mask
  std::vector<uint32_t> bits;

  std::span<const uint32_t> mask(int64_t index) const {
    return std::span<const uint32_t>(bits).subspan(static_cast<size_t>(index * words),
                                                   static_cast<size_t>(words));
  }
};

class Runner {
 public:
  virtual ~Runner() = default;
  // Before forward() of the step in which rows of that slot start.
  virtual void set_slot(int32_t slot, const SlotSetup& setup) = 0;
  virtual void forward(const StepPlan& plan) = 0;
  virtual void sample(const StepPlan& plan, const StepMasks& masks) = 0;
  // The result of the oldest step whose sample part was started. An error means that the device
  // failed.
  virtual Result<StepResult> wait() = 0;
  // Of a row whose logits were not finite, before its sequence gives up its pages: the name of the
  // first intermediate value that is not ("layers.3"), or "" when that cannot be told. The slot's
  // sequence must not go on afterwards. No step may wait for its sample part.
  virtual std::string explain(const SequenceRows&) { return {}; }
};

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_RUNNER_H_
