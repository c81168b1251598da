// How a memory plan is told to people and programs.
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/memory_plan.h"

namespace ashlar {
namespace {

constexpr double kTolerance = 0.01;

double gb(int64_t bytes) { return static_cast<double>(bytes) * 1e-9; }

std::string line(std::string_view name, int64_t bytes, std::string_view note = "") {
  return fmt::format("  {:<26}{:>9.3f}{}{}\n", name, gb(bytes), note.empty() ? "" : "   ", note);
}

}  // namespace

std::string memory_plan_text(const MemoryPlan& plan) {
  const bool on_gpu = plan.backend == Backend::kCuda;
  std::string text = fmt::format("memory of {}, in GB\n", plan.device);
  if (on_gpu) text += line("driver, other programs", plan.used_bytes);
  text += line("weights", plan.weights_bytes, on_gpu ? "" : "mapped or copied, as stored");
  text += line("KV", plan.kv_bytes,
               fmt::format("{} positions, at most {} of a sequence{}", plan.kv_positions,
                           plan.max_context, on_gpu ? "" : "; taken as they fill"));
  if (plan.state_bytes > 0) text += line("state", plan.state_bytes);
  text += line("workspace", plan.workspace_bytes);
  text += line("step buffers, logits", plan.runner_bytes);
  if (on_gpu) text += line("recorded steps", plan.recordings_bytes);
  text += line("free", plan.free_bytes(),
               on_gpu ? fmt::format("memory_fraction {}", plan.memory_fraction) : std::string());
  return text + line("total", plan.total_bytes);
}

nlohmann::json memory_plan_json(const MemoryPlan& plan) {
  return {{"device", plan.device},
          {"max_context", plan.max_context},
          {"kv_positions", plan.kv_positions},
          {"memory_fraction", plan.memory_fraction},
          {"total_bytes", plan.total_bytes},
          {"driver_and_others_bytes", plan.used_bytes},
          {"weights_bytes", plan.weights_bytes},
          {"kv_bytes", plan.kv_bytes},
          {"state_bytes", plan.state_bytes},
          {"workspace_bytes", plan.workspace_bytes},
          {"runner_bytes", plan.runner_bytes},
          {"recordings_bytes", plan.recordings_bytes},
          {"free_bytes", plan.free_bytes()}};
}

std::optional<std::string> plan_warning(const MemoryPlan& plan, const DeviceMemory& now) {
  if (now.total_bytes == 0) return std::nullopt;
  const auto used = static_cast<int64_t>(now.total_bytes - now.free_bytes);
  const int64_t difference = used - plan.planned_bytes();
  if (std::abs(gb(difference)) <= kTolerance * gb(plan.planned_bytes())) return std::nullopt;
  return fmt::format(
      "memory: the plan says that {:.3f} GB of {} are in use, the driver says {:.3f} GB: {:.3f} GB "
      "{}; another program may have {} memory meanwhile",
      gb(plan.planned_bytes()), plan.device, gb(used), std::abs(gb(difference)),
      difference > 0 ? "more" : "less", difference > 0 ? "taken" : "given back");
}

}  // namespace ashlar
