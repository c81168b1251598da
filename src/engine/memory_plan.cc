// Arithmetic of the plan, and the sentences that say which number to change.
#include "engine/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/align.h"
#include "cache/state_needs.h"

namespace ashlar {
namespace {

constexpr double kDefaultFraction = 0.9;
constexpr int64_t kMostPages = INT32_MAX;  // they are counted in 32 bits

std::string gb(int64_t bytes) {
  return fmt::format("{:.2f} GB", static_cast<double>(bytes) * 1e-9);
}

int64_t share(int64_t bytes, double fraction) {
  return static_cast<int64_t>(static_cast<double>(bytes) * fraction);
}

// Works out one plan: what is fixed, what is left for pages, and what to say if that is too little.
class Planner {
 public:
  Planner(const EngineOptions& options, const MemorySizes& sizes, const MemoryRoom& room)
      : options_(options), sizes_(sizes), room_(room) {
    fraction_ = options.memory_fraction > 0 ? options.memory_fraction : kDefaultFraction;
    fixed_ = room.used_bytes + sizes.weights_bytes + sizes.state_bytes + sizes.workspace_bytes +
             sizes.runner.total() + sizes.recordings_bytes;
    left_ = of_all() ? share(room.total_bytes, fraction_) - fixed_ : room.total_bytes / 3;
  }

  Result<MemoryPlan> plan();

 private:
  bool on_gpu() const { return room_.backend == Backend::kCuda; }
  // Whether a share of the memory is the limit: always on a GPU, on the CPU when asked for.
  bool of_all() const { return on_gpu() || options_.memory_fraction > 0; }
  int64_t page_bytes() const { return sizes_.all_page_bytes(); }
  int64_t kv_bytes(int64_t positions) const;
  int64_t affordable(int64_t bytes) const;  // positions
  Status check_fits() const;
  Result<int64_t> derived_positions(int64_t context) const;
  Result<int64_t> asked_positions() const;
  // "; set memory_fraction to 0.95", or what else helps.
  std::string remedy(int64_t wanted_bytes) const;
  std::string left_text() const;

  const EngineOptions& options_;
  const MemorySizes& sizes_;
  const MemoryRoom& room_;
  double fraction_ = 0;
  int64_t fixed_ = 0;
  int64_t left_ = 0;  // for pages
};

int64_t Planner::kv_bytes(int64_t positions) const {
  const int64_t pages = positions / kPagePositions;
  int64_t sum = 0;
  for (const int64_t bytes : sizes_.page_bytes) sum += round_up(pages * bytes, room_.granularity);
  return sum;
}

int64_t Planner::affordable(int64_t bytes) const {
  if (page_bytes() == 0) return kMostPages * kPagePositions;
  // As if the last allocation unit of every layer were empty.
  const auto lost = static_cast<int64_t>(sizes_.page_bytes.size()) * (room_.granularity - 1);
  const int64_t pages = std::max<int64_t>(0, (bytes - lost) / page_bytes());
  return std::min(pages, kMostPages) * kPagePositions;
}

std::string Planner::left_text() const {
  if (!of_all()) return fmt::format("{} may be used", gb(std::max<int64_t>(left_, 0)));
  return fmt::format(
      "memory_fraction {} of {} on {} leaves {} (weights take {}, buffers {}, the driver and other "
      "programs {})",
      fraction_, gb(room_.total_bytes), room_.device, gb(std::max<int64_t>(left_, 0)),
      gb(sizes_.weights_bytes), gb(fixed_ - room_.used_bytes - sizes_.weights_bytes),
      gb(room_.used_bytes));
}

std::string Planner::remedy(int64_t wanted_bytes) const {
  const double needed =
      static_cast<double>(fixed_ + wanted_bytes) / static_cast<double>(room_.total_bytes);
  const double rounded = std::ceil(needed * 100.0) / 100.0;
  if (rounded < 1.0) return fmt::format("set memory_fraction to {:.2f}", rounded);
  const int64_t buffers = sizes_.workspace_bytes + sizes_.runner.total();
  if (fixed_ + wanted_bytes - buffers < room_.total_bytes && buffers > room_.total_bytes / 10) {
    return "lower step_rows, max_batch or max_context";
  }
  // More than a driver takes for itself.
  if (room_.used_bytes > (int64_t{2} << 30) &&
      fixed_ + wanted_bytes - room_.used_bytes < room_.total_bytes) {
    return fmt::format("end other programs on it, which take up to {}", gb(room_.used_bytes));
  }
  return "take a smaller model or a larger device";
}

// On the CPU weights are mapped and give way; what cannot be had at all is refused by the system.
Status Planner::check_fits() const {
  if (!on_gpu()) return {};
  const int64_t least = kv_bytes(kPagePositions);
  if (left_ >= least) return {};
  return fail(ErrorCode::kResourceExhausted, "the model does not fit: {}, and {} is needed; {}",
              left_text(), gb(least - std::min<int64_t>(left_, 0)), remedy(least));
}

Result<int64_t> Planner::derived_positions(int64_t context) const {
  const int64_t pages = round_up(context, kPagePositions) * options_.max_batch;
  const int64_t positions = std::min(pages, affordable(left_));
  const int64_t least = options_.max_context != 0 ? round_up(context, kPagePositions) : 1;
  if (positions >= least) return positions;
  // Allocation units that affordable() gave up may hold it after all.
  const int64_t exactly = round_up(least, kPagePositions);
  if (kv_bytes(exactly) <= left_) return exactly;
  const int64_t possible = affordable(left_);
  const std::string lower = possible > 0 && options_.max_context != 0
                                ? fmt::format("lower max_context to {}", possible)
                                : std::string();
  const std::string other = of_all() ? remedy(kv_bytes(round_up(least, kPagePositions)))
                                     : std::string("set kv_positions");
  return fail(ErrorCode::kResourceExhausted,
              "a context of {} positions needs {} of KV, but {}; {}{}{}", least,
              gb(kv_bytes(round_up(least, kPagePositions))), left_text(), lower,
              lower.empty() ? "" : " or ", other);
}

Result<int64_t> Planner::asked_positions() const {
  if (options_.kv_positions < options_.max_context) {
    return fail(ErrorCode::kInvalidArgument, "kv_positions: {} is less than max_context {}",
                options_.kv_positions, options_.max_context);
  }
  const int64_t positions = round_up(options_.kv_positions, kPagePositions);
  if (of_all()) {
    const int64_t most = affordable(left_);
    if (positions <= most || kv_bytes(positions) <= left_) return positions;
    return fail(ErrorCode::kResourceExhausted,
                "kv_positions: {} need {}, but {}; lower it to {} or {}", options_.kv_positions,
                gb(kv_bytes(positions)), left_text(), most, remedy(kv_bytes(positions)));
  }
  // Asked for by hand, pages may take more than a third: their memory must at least exist.
  const int64_t most =
      std::min(kMostPages * kPagePositions,
               page_bytes() > 0 ? room_.total_bytes / page_bytes() * kPagePositions : INT64_MAX);
  if (positions <= round_up(most, kPagePositions)) return positions;
  return fail(ErrorCode::kResourceExhausted,
              "kv_positions: {} are more than the {} that this machine's memory holds", positions,
              most);
}

Result<MemoryPlan> Planner::plan() {
  if (options_.max_context > sizes_.model_context) {
    return fail(ErrorCode::kInvalidArgument,
                "max_context: {} is more than the {} positions of the model", options_.max_context,
                sizes_.model_context);
  }
  ASHLAR_TRY(check_fits());
  const int64_t context = options_.max_context != 0 ? options_.max_context : sizes_.model_context;
  Result<int64_t> positions =
      options_.kv_positions == 0 ? derived_positions(context) : asked_positions();
  if (!positions) return tl::unexpected<Error>(positions.error());
  MemoryPlan plan;
  plan.backend = room_.backend;
  plan.device = room_.device;
  plan.max_context = std::min(context, *positions);
  plan.kv_positions = *positions;
  plan.memory_fraction = options_.memory_fraction > 0 || on_gpu() ? fraction_ : 0;
  plan.total_bytes = room_.total_bytes;
  plan.used_bytes = room_.used_bytes;
  plan.weights_bytes = sizes_.weights_bytes;
  plan.kv_bytes = kv_bytes(*positions);
  plan.state_bytes = sizes_.state_bytes;
  plan.workspace_bytes = sizes_.workspace_bytes;
  plan.runner_bytes = sizes_.runner.total();
  plan.recordings_bytes = sizes_.recordings_bytes;
  return plan;
}

}  // namespace

int64_t MemorySizes::all_page_bytes() const {
  return std::accumulate(page_bytes.begin(), page_bytes.end(), int64_t{0});
}

int64_t MemoryPlan::planned_bytes() const {
  return used_bytes + weights_bytes + kv_bytes + state_bytes + workspace_bytes + runner_bytes +
         recordings_bytes;
}

Result<MemoryPlan> plan_memory(const EngineOptions& options, const MemorySizes& sizes,
                               const MemoryRoom& room) {
  return Planner(options, sizes, room).plan();
}

EngineOptions planned_options(EngineOptions options, const MemoryPlan& plan) {
  options.max_context = plan.max_context;
  options.kv_positions = plan.kv_positions;
  options.memory_fraction = plan.memory_fraction;
  return options;
}

}  // namespace ashlar
