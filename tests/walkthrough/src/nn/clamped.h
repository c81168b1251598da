// Clamped: the walkthrough's block, which limits rows to a range. Models reach operations through
// blocks alone.
#ifndef ASHLAR_NN_CLAMPED_H_
#define ASHLAR_NN_CLAMPED_H_

#include "kernels/clamp/clamp.h"
#include "nn/step.h"

namespace ashlar {

class Clamped {
 public:
  Clamped() = default;
  explicit Clamped(double limit) : limit_(static_cast<float>(limit)) {}
  // x [T D] f32, in place.
  void operator()(Step& step, TensorView x) const { clamp(step.stream, {.x = x, .limit = limit_}); }

 private:
  float limit_ = 0;
};

}  // namespace ashlar

#endif  // ASHLAR_NN_CLAMPED_H_
