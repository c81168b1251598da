// AcceptedRequest: a request that has passed every check, with all that the engine will keep about
// it, made on the thread that submits. Enqueueing it cannot fail and costs no more than its pieces.
// Private to the engine's own files.
#ifndef ASHLAR_ENGINE_ACCEPTED_REQUEST_H_
#define ASHLAR_ENGINE_ACCEPTED_REQUEST_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/output.h"
#include "engine/request.h"
#include "engine/sequence.h"
#include "sampling/constraint.h"

namespace ashlar {

struct EngineChoice {
  RequestId request = 0;
  int64_t choice = 0;
  OutputText text;
  std::unique_ptr<TokenConstraint> constraint;
  int64_t output_tokens = 0;
  int64_t cached_tokens = 0;
};

struct EngineRequest {
  Request wish;  // without its prompt, which the sequences hold
  int64_t prompt_tokens = 0;
  int64_t seed = 0;
  std::vector<int32_t> end_tokens;  // of the model and the request
  SequenceId first = 0;             // choices have the ids first, first + 1, ...
  int64_t open_choices = 0;
};

struct AcceptedRequest {
  RequestId id = 0;
  SequenceSpec spec;
  EngineRequest record;
  std::vector<EngineChoice> choices;
};

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_ACCEPTED_REQUEST_H_
