// Derivation of context and pages from options and memory.
#include "engine/memory_plan.h"

#include <unistd.h>

#include <algorithm>

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
  plan.max_context = std::min(plan.max_context, plan.kv_positions);
  return plan;
}

int64_t default_kv_budget_bytes() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0 ? pages * page_bytes / 3 : int64_t{1} << 30;
}

}  // namespace ashlar
