// Sequence: the scheduler's progress on one choice of one request. Only the scheduler changes it.
//
// The host learns tokens a step or two late, so progress has two parts: what is known (`tokens`)
// and what submitted steps will have computed at least (`planned`) and at most (`planned + slack`).
#ifndef ASHLAR_ENGINE_SEQUENCE_H_
#define ASHLAR_ENGINE_SEQUENCE_H_

#include <cstdint>
#include <vector>

#include "cache/page_list.h"
#include "engine/request.h"
#include "engine/step_plan.h"

namespace ashlar {

// When a sequence ends for reasons that its tokens alone decide. Stop strings are text and end it
// from outside.
struct StopRules {
  int64_t max_tokens = 1;  // output tokens
  int64_t min_tokens = 0;  // the sampler suppresses end tokens until then
  std::vector<int32_t> end_tokens;

  // After `token` became output token number `count`.
  FinishReason after(int32_t token, int64_t count) const;
};

struct SequenceSpec {
  RequestId request = 0;
  int64_t choice = 0;
  std::vector<int32_t> prompt;
  StopRules stop;
  int64_t drafts = 0;  // draft rows a step verifies at most
  bool late = false;   // every sampled token needs a mask made from the tokens before it
};

struct Sequence {
  enum class Phase : uint8_t { kWaiting, kRunning, kFinished };

  SequenceId id = 0;
  SequenceSpec spec;            // without its prompt
  std::vector<int32_t> tokens;  // prompt, then reconciled output
  int64_t prompt_length = 0;
  int64_t limit = 0;  // tokens it may have in all; position limit - 1 is never computed
  Phase phase = Phase::kWaiting;

  PageList pages;
  int32_t slot = -1;
  bool started = false;   // rows of it were planned since it took its slot
  bool decoding = false;  // all known tokens are planned; the next one comes from the device
  bool admitted = false;  // ran at least once
  int64_t planned = 0;    // positions computed by submitted steps, at least
  int64_t slack = 0;      // and at most so many more
  int64_t cached = 0;     // prompt positions that came from shared pages at first admission
  int64_t in_flight = 0;  // submitted steps with rows of it

  int64_t prompt_tokens() const { return prompt_length; }
  int64_t known() const { return static_cast<int64_t>(tokens.size()); }
  int64_t output_tokens() const { return known() - prompt_tokens(); }
  bool finished() const { return phase == Phase::kFinished; }
};

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_SEQUENCE_H_
