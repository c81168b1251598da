// MemoryPlan: how many positions and pages an engine gets, worked out before anything is allocated.
//
// Numbers that the options leave at 0 are derived; numbers they give are honoured or refused with
// the one to change.
#ifndef ASHLAR_ENGINE_MEMORY_PLAN_H_
#define ASHLAR_ENGINE_MEMORY_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

// A third of the memory that this process may use: the default budget of KV on the CPU, where pages
// take memory only once used.
int64_t default_kv_budget_bytes();
// The machine's memory, or what the container allows where that is less.
int64_t machine_memory_bytes();

// What control groups allow. The root is that of their file system ("/sys/fs/cgroup"), the groups
// are the text of /proc/self/cgroup: version 2, version 1 or both. A group's limit counts, and that
// of each group above it; nullopt when there is none or nothing can be read.
std::optional<int64_t> container_memory_bytes(const std::string& root, std::string_view groups);

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_MEMORY_PLAN_H_
