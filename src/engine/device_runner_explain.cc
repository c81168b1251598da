// Finds where a value went wrong: the step of one row runs again, directly, and every intermediate
// value is looked at on the host. Slow, and only for a row that has failed.
#include <cmath>
#include <vector>

#include "engine/device_runner.h"
#include "tensor/dtype.h"

namespace ashlar {
namespace {

float to_float(float v) { return v; }
using ashlar::to_float;

template <class T>
bool all_finite(const std::vector<std::byte>& bytes) {
  const T* values = reinterpret_cast<const T*>(bytes.data());
  for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    if (!std::isfinite(to_float(values[i]))) return false;
  }
  return true;
}

}  // namespace

std::string DeviceRunner::explain(const SequenceRows& row) {
  StepPlan plan;
  plan.rows = {row};
  const StepShape shape = shape_of(plan);
  std::string first;
  const StepTap look = [&](std::string_view name, TensorView value) {
    if (!first.empty() || !value.contiguous()) return;
    const size_t bytes = static_cast<size_t>(value.shape().count()) * dtype_bytes(value.dtype());
    std::vector<std::byte> host(bytes);
    device_.copy(*stream_, host.data(), value.data(), bytes);
    // A failure may be of a step in flight: whoever waits for that is told.
    if (const Status waited = stream_->synchronize(); !waited) {
      if (!failure_) failure_ = waited.error();
      return;
    }
    const bool sound = value.dtype() == DType::kF32    ? all_finite<float>(host)
                       : value.dtype() == DType::kBF16 ? all_finite<BF16>(host)
                                                       : true;
    if (!sound) first = name;
  };
  const StepViews views = buffers_.fill(*stream_, plan, shape, options_.depth);
  issue_forward(views, shape, &look);
  return first;
}

}  // namespace ashlar
