// ModelSession: a model that is ready to answer: checkpoint, tokenizer, chat template, device,
// network and engine.
//
// Made once a process. Members are in the order in which they depend on each other, so
// that they are destroyed the other way round.
#ifndef ASHLAR_APPS_MODEL_SESSION_H_
#define ASHLAR_APPS_MODEL_SESSION_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/load_wish.h"
#include "device/device.h"
#include "engine/engine.h"
#include "engine/memory_plan.h"
#include "environment.h"
#include "models/model.h"
#include "run_options.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ashlar {

// What can be said about a model without building it.
struct OpenedModel {
  std::shared_ptr<Checkpoint> checkpoint;
  std::optional<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;  // none: only --raw works
  std::vector<int32_t> end_tokens;  // of the tokenizer, config.json and generation_config.json
  double checkpoint_seconds = 0;
  double text_seconds = 0;  // tokenizer and template
};

Result<OpenedModel> open_model(const std::string& argument, const Environment& environment,
                               TensorUse use = TensorUse::kValues);

// Where the time of a start went, in the order of the parts; what is in OpenedModel came before.
struct StartTimes {
  double device_seconds = 0;
  double plan_seconds = 0;
  double model_seconds = 0;  // of which load.seconds were the weights'
  LoadProgress load;         // of a GPU's weights
  double engine_seconds = 0;
};

// What whoever starts a session wants to be told meanwhile. Either may be empty.
struct StartWish {
  std::function<void(const MemoryPlan&)> on_plan;  // on a GPU before the weights are loaded
  LoadObserver on_load;
};

struct ModelSession {
  std::unique_ptr<OpenedModel> opened;  // on the heap: the engine keeps a pointer to its tokenizer
  std::unique_ptr<Device> device;
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
  StartTimes times;

  const Tokenizer& tokenizer() const { return *opened->tokenizer; }
};

// context_length: positions to prepare for; 0: the checkpoint's.
Result<std::unique_ptr<Model>> build_model(std::shared_ptr<Checkpoint> checkpoint,
                                           int64_t decodable, Device& device,
                                           const DeviceOptions& options, int64_t context_length,
                                           const LoadWish& load = {});
// What an engine would take of a GPU, from the checkpoint's sizes alone; nothing is allocated.
Result<MemoryPlan> plan_before_loading(std::shared_ptr<Checkpoint> checkpoint, int64_t decodable,
                                       Device& device, const RunOptions& options);
Result<ModelSession> start_session(OpenedModel opened, const RunOptions& options,
                                   const StartWish& wish = {});

}  // namespace ashlar

#endif  // ASHLAR_APPS_MODEL_SESSION_H_
