// The sizes that a memory plan is made from: of a model, of its runner, of a device.
#include <algorithm>

#include "base/align.h"
#include "engine/memory_plan.h"
#include "engine/recorded_step.h"
#include "engine/step_buffers.h"
#include "engine/step_sampler.h"
#include "models/model.h"

namespace ashlar {
namespace {

constexpr int64_t kCudaGranularity = int64_t{2} << 20;

int64_t pages_of(int64_t positions) { return divide_up(positions, kPagePositions); }

int64_t output_rows(const EngineOptions& options, int64_t drafts) {
  return options.max_batch * (1 + drafts);
}

}  // namespace

RunnerBytes runner_bytes(const EngineOptions& wished, const Model& model, Backend backend,
                         int64_t drafts) {
  const EngineOptions options = options_on(backend, wished);
  const int64_t slots = options.max_batch;
  const int64_t outputs = output_rows(options, drafts);
  const int64_t context =
      options.max_context > 0 ? options.max_context : model.info().context_length;
  StepShape largest;
  largest.rows = options.step_rows;
  largest.sequences = slots;
  largest.output_rows = outputs;
  largest.table_pages = pages_of(context);
  RunnerBytes bytes;
  bytes.inputs = StepBuffers::device_bytes(largest, slots, drafts);
  bytes.logits = 4 * outputs * model.info().vocabulary;
  if (backend == Backend::kCpu && options.graphs != "on") return bytes;  // samples on the host
  const DeviceSamplerBytes sampler =
      device_sampler_bytes({slots, outputs, model.info().decodable, options.depth + 1});
  bytes.sampling = sampler.kept;
  bytes.results = sampler.results;
  return bytes;
}

int64_t recordings_of(const EngineOptions& options, int64_t drafts) {
  if (options.graphs == "off") return 0;
  const int64_t row_counts = static_cast<int64_t>(recorded_sequences(options.max_batch).size());
  return 2 * row_counts * (drafts > 0 ? 2 : 1);
}

MemorySizes memory_sizes(const EngineOptions& wished, const Model& model, Backend backend,
                         int64_t drafts) {
  const EngineOptions options = options_on(backend, wished);
  MemorySizes sizes;
  sizes.model_context = model.info().context_length;
  for (const PagedState& state : model.state_needs().paged) {
    sizes.page_bytes.push_back(state.bytes_per_position * kPagePositions);
  }
  sizes.weights_bytes = model.info().device_bytes;
  sizes.state_bytes = model.state_needs().slot_bytes() * options.max_batch;
  sizes.workspace_bytes = model.workspace_bytes(options.step_rows, output_rows(options, drafts));
  sizes.runner = runner_bytes(options, model, backend, drafts);
  if (backend == Backend::kCuda) {
    sizes.recordings_bytes = recordings_of(options, drafts) * kRecordingBytes;
  }
  return sizes;
}

MemoryRoom memory_room(const Device& device, int64_t weights_bytes) {
  const DeviceMemory memory = device.memory();
  MemoryRoom room;
  room.backend = device.backend();
  room.device = device.name();
  if (memory.total_bytes == 0) {
    room.total_bytes = machine_memory_bytes();
    return room;
  }
  room.total_bytes = static_cast<int64_t>(memory.total_bytes);
  const int64_t used = room.total_bytes - static_cast<int64_t>(memory.free_bytes);
  room.used_bytes = std::max<int64_t>(0, used - weights_bytes) + kDriverGrowthBytes;
  room.granularity = kCudaGranularity;
  return room;
}

Result<MemoryPlan> plan_memory(const EngineOptions& options, const Model& model,
                               const Device& device, int64_t drafts) {
  const MemorySizes sizes = memory_sizes(options, model, device.backend(), drafts);
  return plan_memory(options, sizes, memory_room(device, sizes.weights_bytes));
}

}  // namespace ashlar
