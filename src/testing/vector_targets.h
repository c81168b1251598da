// Runs a test once for every vector instruction set that this machine and this build have, not only
// the best one. The choice is global to the process: tests that use this must not run other kernels
// at the same time.
#ifndef ASHLAR_TESTING_VECTOR_TARGETS_H_
#define ASHLAR_TESTING_VECTOR_TARGETS_H_

#include "hwy/highway.h"

namespace ashlar {

// Calls function(name of the instruction set) for each.
template <class Function>
void for_each_vector_target(Function function) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    function(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace ashlar

#endif  // ASHLAR_TESTING_VECTOR_TARGETS_H_
