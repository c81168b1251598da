// StepResult: what a runner hands back for one step, as a plain value.
#ifndef ASHLAR_ENGINE_STEP_RESULT_H_
#define ASHLAR_ENGINE_STEP_RESULT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/request.h"
#include "engine/step_plan.h"

namespace ashlar {

struct SequenceResult {
  SequenceId sequence = 0;
  std::vector<GeneratedToken> tokens;  // 1 to 1 + drafts; none when it failed
  std::string failure;  // why no token could be chosen: "logits at position 12 are not finite"
  int64_t bad_position = -1;  // whose logits were not finite, if that is why
};

struct StepResult {
  int64_t step = 0;
  std::vector<SequenceResult>
      rows;  // of the sequences whose logits were wanted, in the plan's order
};

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_STEP_RESULT_H_
