// Derivation of context and pages from options and memory.
#include "engine/memory_plan.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/align.h"
#include "cache/state_needs.h"

namespace ashlar {

Result<EngineOptions> plan_memory(const EngineOptions& options, const MemoryFacts& facts) {
  EngineOptions plan = options;
  if (plan.max_context > facts.model_context) {
    return fail(ErrorCode::kInvalidArgument,
                "max_context: {} is more than the {} positions of the model", plan.max_context,
                facts.model_context);
  }
  if (plan.max_context == 0) plan.max_context = facts.model_context;
  const int64_t affordable =
      facts.bytes_per_position > 0
          ? facts.budget_bytes / facts.bytes_per_position / kPagePositions * kPagePositions
          : plan.max_context * plan.max_sequences;
  if (plan.kv_positions == 0) {
    const int64_t wanted = round_up(plan.max_context, kPagePositions) * plan.max_sequences;
    plan.kv_positions = std::min(wanted, affordable);
    if (plan.kv_positions < plan.max_context && options.max_context != 0) {
      return fail(ErrorCode::kResourceExhausted,
                  "a context of {} positions needs {} MB of KV, but only {} MB may be used; lower "
                  "max_context "
                  "or set kv_positions",
                  plan.max_context, plan.max_context * facts.bytes_per_position / 1000000,
                  facts.budget_bytes / 1000000);
    }
  } else if (plan.kv_positions < plan.max_context && options.max_context != 0) {
    return fail(ErrorCode::kInvalidArgument, "kv_positions: {} is less than max_context {}",
                plan.kv_positions, plan.max_context);
  }
  plan.kv_positions = round_up(plan.kv_positions, kPagePositions);
  if (plan.kv_positions < kPagePositions) {
    return fail(ErrorCode::kResourceExhausted,
                "no page of {} positions fits into {} MB; set kv_positions", kPagePositions,
                facts.budget_bytes / 1000000);
  }
  // Asked for by hand: pages are counted in 32 bits, and their memory must at least exist.
  const int64_t most = std::min<int64_t>(
      int64_t{INT32_MAX} * kPagePositions,
      facts.bytes_per_position > 0 ? facts.machine_bytes / facts.bytes_per_position : INT64_MAX);
  if (plan.kv_positions > round_up(most, kPagePositions)) {
    return fail(ErrorCode::kResourceExhausted,
                "kv_positions: {} are more than the {} that this machine's memory holds",
                plan.kv_positions, most);
  }
  plan.max_context = std::min(plan.max_context, plan.kv_positions);
  return plan;
}

int64_t default_kv_budget_bytes() { return machine_memory_bytes() / 3; }

int64_t machine_memory_bytes() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0 ? pages * page_bytes : int64_t{3} << 30;
}

}  // namespace ashlar
