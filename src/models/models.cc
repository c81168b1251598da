// The table of families: the one place that a new family is added to.
#include "models/model.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/config_reader.h"
#include "models/families.h"
#include "nn/model_builder.h"

namespace ashlar {

namespace {

constexpr const ModelFamily* kFamilies[] = {
    &llama_family,
    &qwen2_family,
    &qwen3_family,
    &gemma3_family,
};

}  // namespace

void Model::adopt(ModelInfo info, const ModelBuilder& builder,
                  std::shared_ptr<const Checkpoint> checkpoint) {
  info_ = std::move(info);
  info_.most_sequences = builder.most_sequences();
  state_needs_ = builder.state_needs();
  paged_shapes_ = builder.paged_shapes();
  checkpoint_ = std::move(checkpoint);
}

std::span<const ModelFamily* const> model_families() { return kFamilies; }

namespace {

Status check_kv_type(const Device& device, const ModelOptions& options) {
  const DType type = options.kv_type.value_or(default_kv_type(device.backend()));
  if (device.backend() != Backend::kCuda || type == DType::kBF16) return {};
  return fail(ErrorCode::kUnsupported, "keys and values are bf16 on {}, not {}", device.name(),
              dtype_name(type));
}

// What the model took, as the device counts it: rounded as memory is handed out.
int64_t device_bytes(const Checkpoint& checkpoint, const Device& device, size_t free_before) {
  const DeviceMemory memory = device.memory();
  if (memory.total_bytes > 0) {
    return static_cast<int64_t>(free_before - std::min(free_before, memory.free_bytes));
  }
  int64_t stored = 0;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    stored += static_cast<int64_t>(tensor.bytes);
  }
  return stored;
}

// What loading leaves behind: pages of the file, and memory that the allocator keeps for itself.
void give_back_leftovers(const Checkpoint& checkpoint) {
  if (checkpoint.gguf() != nullptr) checkpoint.gguf()->give_back();
  malloc_trim(0);
}

}  // namespace

Result<std::unique_ptr<Model>> load_model(std::shared_ptr<Checkpoint> checkpoint, Device& device,
                                          const ModelOptions& options) {
  ASHLAR_TRY(check_kv_type(device, options));
  const ConfigReader config(checkpoint->config(), checkpoint->config_name());
  ASHLAR_ASSIGN(const std::string type, config.require<std::string>("model_type"));
  std::string known;
  for (const ModelFamily* family : model_families()) {
    for (const char* one : family->model_types) {
      if (type == one) {
        const size_t free_before = device.memory().free_bytes;
        Result<std::unique_ptr<Model>> model = family->build(checkpoint, device, options);
        if (!model) return model;
        (*model)->set_device_bytes(device_bytes(*checkpoint, device, free_before));
        give_back_leftovers(*checkpoint);
        return model;
      }
      known += fmt::format("{}{}", known.empty() ? "" : ", ", one);
    }
  }
  return config.refuse("model_type", fmt::format("the supported ones are {}", known));
}

}  // namespace ashlar
