// MemoryPlan: what an engine takes of the memory of its device, worked out before anything is
// allocated: weights, KV, state, workspace, the runner's buffers, recordings, and what was in use
// before. A plain value, made by a pure function from sizes, options and the memory that is there.
//
// Numbers that the options leave at 0 are derived; numbers that they give are honoured, or refused
// with the one to change and the value to give it. On a GPU pages get what the rest leaves. On the
// CPU, where pages take memory only once used and other programs come and go, they get a third.
#ifndef ASHLAR_ENGINE_MEMORY_PLAN_H_
#define ASHLAR_ENGINE_MEMORY_PLAN_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "engine/engine_options.h"

namespace ashlar {

class Model;

// Of all that a runner allocates beside pages and workspace: the one place where these figures are
// made is runner_bytes().
struct RunnerBytes {
  int64_t inputs = 0;    // index arrays of steps, page tables, what slots keep
  int64_t logits = 0;    // of the output rows of a step
  int64_t sampling = 0;  // parameters, counts, lists and masks of slots
  int64_t results = 0;   // tokens, logprobs and alternatives of steps in flight
  int64_t total() const { return inputs + logits + sampling + results; }
};

// A figure until it is measured on each GPU: what a recorded part of a step keeps on the device.
constexpr int64_t kRecordingBytes = int64_t{2} << 20;
// The same for what the driver takes more once kernels have run: code, local memory, printf.
constexpr int64_t kDriverGrowthBytes = int64_t{64} << 20;

// What a model and its engine need, whatever memory there is.
struct MemorySizes {
  int64_t model_context = 0;        // positions the model was made for
  std::vector<int64_t> page_bytes;  // of a page of kPagePositions, one a layer that keeps pages
  int64_t weights_bytes = 0;        // on the device; on the CPU as they are stored
  int64_t state_bytes = 0;          // beside pages, of all slots
  int64_t workspace_bytes = 0;      // of the largest step
  RunnerBytes runner;
  int64_t recordings_bytes = 0;

  int64_t all_page_bytes() const;
};

// What there is.
struct MemoryRoom {
  Backend backend = Backend::kCpu;
  std::string device;       // for messages: "cuda: NVIDIA H200, 139 GiB"
  int64_t total_bytes = 0;  // of the device, or of the machine (what its container allows)
  int64_t used_bytes = 0;   // without these weights: the driver's own and other programs'
  int64_t granularity = 1;  // allocations take whole multiples
};

struct MemoryPlan {
  Backend backend = Backend::kCpu;
  std::string device;
  int64_t max_context = 0;
  int64_t kv_positions = 0;  // a multiple of the page size
  double memory_fraction = 0;

  int64_t total_bytes = 0;
  int64_t used_bytes = 0;  // driver, other programs; 0 on the CPU
  int64_t weights_bytes = 0;
  int64_t kv_bytes = 0;
  int64_t state_bytes = 0;
  int64_t workspace_bytes = 0;
  int64_t runner_bytes = 0;
  int64_t recordings_bytes = 0;

  int64_t planned_bytes() const;  // all of the above but the total
  int64_t free_bytes() const { return total_bytes - planned_bytes(); }
};

Result<MemoryPlan> plan_memory(const EngineOptions& options, const MemorySizes& sizes,
                               const MemoryRoom& room);
// The options with what the plan decided filled in.
EngineOptions planned_options(EngineOptions options, const MemoryPlan& plan);

// drafts: of a step and sequence.
RunnerBytes runner_bytes(const EngineOptions& options, const Model& model, Backend backend,
                         int64_t drafts);
// Recordings that the runner keeps: a forward and a sample part for each bucket of rows.
int64_t recordings_of(const EngineOptions& options, int64_t drafts);
MemorySizes memory_sizes(const EngineOptions& options, const Model& model, Backend backend,
                         int64_t drafts);
// Of a device as it is now, on which weights_bytes are allocated already.
MemoryRoom memory_room(const Device& device, int64_t weights_bytes);
// All of the above for a model that is loaded onto the device, or built on a counting one.
Result<MemoryPlan> plan_memory(const EngineOptions& options, const Model& model,
                               const Device& device, int64_t drafts);

// One line each: where, in GB of 10^9 bytes, what. Ends with a newline.
std::string memory_plan_text(const MemoryPlan& plan);
nlohmann::json memory_plan_json(const MemoryPlan& plan);
// What to tell when the driver counts other than the plan says, by more than 1 %; nullopt: it
// agrees, or the device has no memory of its own.
std::optional<std::string> plan_warning(const MemoryPlan& plan, const DeviceMemory& now);

// The machine's memory, or what the container allows where that is less.
int64_t machine_memory_bytes();

// What control groups allow. The root is that of their file system ("/sys/fs/cgroup"), the groups
// are the text of /proc/self/cgroup: version 2, version 1 or both. A group's limit counts, and that
// of each group above it; nullopt when there is none or nothing can be read.
std::optional<int64_t> container_memory_bytes(const std::string& root, std::string_view groups);

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_MEMORY_PLAN_H_
