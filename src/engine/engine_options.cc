// The list of an engine's options, and what depends on the backend.
#include "engine/engine_options.h"

#include <algorithm>

namespace ashlar {

OptionFields EngineOptions::fields() {
  constexpr double kMany = 1e12;
  OptionFields f;
  f.add("max_context", max_context,
        "positions that a sequence may have; 0: what the model was made for")
      .range(0, kMany);
  f.add("kv_positions", kv_positions,
        "positions that all sequences may have together; 0: from the memory")
      .range(0, kMany);
  f.add("memory_fraction", memory_fraction,
        "share of the device's memory that weights, KV and all else may take together; 0: 0.9 on a "
        "GPU, and on the CPU a third of the memory for KV")
      .range(0, 1);
  f.add("max_batch", max_batch, "sequences that run at once").range(1, 4096);
  f.add("step_rows", step_rows,
        "rows of a step; a longer prompt is computed in several steps; 0: 512 on the CPU, 2048 on "
        "a GPU")
      .range(0, 65536);
  f.add("max_waiting", max_waiting, "answers that may wait for their turn; more are refused")
      .range(1, 1e6);
  f.add("depth", depth, "steps in flight; 2 plans a step while the one before runs").range(1, 2);
  f.add("graphs", graphs,
        "record decode steps at start and replay them; auto: on a GPU, where that is faster")
      .one_of({"auto", "on", "off"});
  return f;
}

EngineOptions options_on(Backend backend, EngineOptions options) {
  const bool gpu = backend == Backend::kCuda;
  if (options.step_rows == 0) {
    options.step_rows = std::max<int64_t>(gpu ? 2048 : 512, options.max_batch);
  }
  if (options.graphs == "auto") options.graphs = gpu ? "on" : "off";
  return options;
}

}  // namespace ashlar
