// ModelSession: a model that is ready to answer: checkpoint, tokenizer, chat template, device,
// network and engine.
//
// Made once a process by `run`. Members are in the order in which they depend on each other, so
// that they are destroyed the other way round.
#ifndef ASHLAR_APPS_MODEL_SESSION_H_
#define ASHLAR_APPS_MODEL_SESSION_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "device/device.h"
#include "engine/engine.h"
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
};

Result<OpenedModel> open_model(const std::string& argument, const Environment& environment,
                               TensorUse use = TensorUse::kValues);

struct ModelSession {
  std::unique_ptr<OpenedModel> opened;  // on the heap: the engine keeps a pointer to its tokenizer
  std::unique_ptr<Device> device;
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;

  const Tokenizer& tokenizer() const { return *opened->tokenizer; }
};

// context_length: positions to prepare for; 0: the checkpoint's.
Result<std::unique_ptr<Model>> build_model(std::shared_ptr<Checkpoint> checkpoint,
                                           int64_t decodable, Device& device,
                                           const DeviceOptions& options, int64_t context_length);
Result<ModelSession> start_session(OpenedModel opened, const RunOptions& options);

}  // namespace ashlar

#endif  // ASHLAR_APPS_MODEL_SESSION_H_
