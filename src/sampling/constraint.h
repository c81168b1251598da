// TokenConstraint: a rule that narrows which token may come next and that the host computes from
// the tokens so far, such as a grammar. It is the late input of a step: the forward part runs
// before its mask is known, the sample part waits.
//
// One object serves one choice of one request and is used by one thread at a time.
#ifndef ASHLAR_SAMPLING_CONSTRAINT_H_
#define ASHLAR_SAMPLING_CONSTRAINT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/error.h"

namespace ashlar {

class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // Sets bit i % 32 of word i / 32 when token i may come next, clears it otherwise.
  virtual Status allowed(std::span<uint32_t> bits) = 0;
  // Tells it the token that came.
  virtual Status accept(int32_t token) = 0;
};

using ConstraintFactory = std::function<std::unique_ptr<TokenConstraint>()>;

}  // namespace ashlar

#endif  // ASHLAR_SAMPLING_CONSTRAINT_H_
