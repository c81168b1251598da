// EngineOptions: the knobs of an engine, declared once (base/options.h). What 0 becomes is decided
// by memory_plan.h.
#ifndef ASHLAR_ENGINE_ENGINE_OPTIONS_H_
#define ASHLAR_ENGINE_ENGINE_OPTIONS_H_

#include <cstdint>
#include <string>

#include "base/options.h"
#include "device/device.h"

namespace ashlar {

struct EngineOptions {
  int64_t max_context = 0;  // positions a sequence may have; 0: what the model was made for
  int64_t kv_positions =
      0;  // positions that the pages of all sequences hold; 0: from memory and context
  double memory_fraction = 0;  // share of the memory that everything may take together; 0: default
  int64_t max_batch = 16;      // sequences that run at once
  // Rows that a step may have; a longer prompt is computed in several steps. 0: see options_on().
  int64_t step_rows = 0;
  int64_t max_waiting = 1024;   // requests that may wait; more are refused
  int64_t depth = 2;            // steps in flight: 1 or 2
  std::string graphs = "auto";  // whether decode steps are recorded: "on", "off"; "auto": on CUDA

  OptionFields fields();
};

// The options with what depends on the backend alone filled in: a CPU gains nothing from more rows
// than 512, nor from recordings; a GPU's matmuls are at their speed from some 2,000 rows on.
EngineOptions options_on(Backend backend, EngineOptions options);

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_ENGINE_OPTIONS_H_
