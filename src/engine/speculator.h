// Speculator: proposes draft tokens on the device, at the end of a step's sample part, for the next
// step to verify. Proposing is all it does: which drafts stay is decided by the sampler, so it can
// change speed but never an answer.
#ifndef ASHLAR_ENGINE_SPECULATOR_H_
#define ASHLAR_ENGINE_SPECULATOR_H_

#include <cstdint>

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace ashlar {

class Speculator {
 public:
  virtual ~Speculator() = default;
  // Draft tokens a sequence and step.
  virtual int64_t drafts() const = 0;
  // For each slot in `slots` [N i32] that is not -1: reads the newest token and its position, feed
  // [slots] i32 and lengths [slots] i32, and writes drafts [slots drafts()] i32. A draft must be a
  // valid token id, right or wrong.
  virtual void propose(Stream& stream, TensorView slots, TensorView feed, TensorView lengths,
                       TensorView drafts) = 0;
};

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_SPECULATOR_H_
