// MemoryPlan: how many positions and pages an engine gets, worked out before anything is allocated.
//
// Numbers that the options leave at 0 are derived; numbers they give are honoured or refused with
// the one to change.
#ifndef ASHLAR_ENGINE_MEMORY_PLAN_H_
#define ASHLAR_ENGINE_MEMORY_PLAN_H_

#include <cstdint>

#include "base/error.h"
#include "engine/engine.h"

namespace ashlar {

// What the plan is made from besides options.
struct MemoryFacts {
  int64_t model_context = 0;       // positions the model was made for
  int64_t bytes_per_position = 0;  // KV of one position, all layers
  int64_t budget_bytes = 0;        // that KV may take when nothing else is asked for
  int64_t machine_bytes = 0;       // of memory; more KV than that is refused
};

// The options with max_context and kv_positions filled in, kv_positions a multiple of the page
// size.
Result<EngineOptions> plan_memory(const EngineOptions& options, const MemoryFacts& facts);

// A third of the machine's memory: the default budget of KV on the CPU, where pages take memory
// only once used.
int64_t default_kv_budget_bytes();
int64_t machine_memory_bytes();

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_MEMORY_PLAN_H_
