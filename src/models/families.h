// The build functions of the families, one a file of this folder; models.cc lists them.
#ifndef ASHLAR_MODELS_FAMILIES_H_
#define ASHLAR_MODELS_FAMILIES_H_

#include <memory>

#include "models/model.h"

namespace ashlar {

using BuiltModel = Result<std::unique_ptr<Model>>;

// M has Status load(checkpoint, device, options).
template <class M>
BuiltModel build_model(std::shared_ptr<Checkpoint> checkpoint, Device& device,
                       const ModelOptions& options) {
  auto model = std::make_unique<M>();
  ASHLAR_TRY(model->load(std::move(checkpoint), device, options));
  return model;
}

BuiltModel build_llama(std::shared_ptr<Checkpoint> checkpoint, Device& device,
                       const ModelOptions& options);
BuiltModel build_qwen2(std::shared_ptr<Checkpoint> checkpoint, Device& device,
                       const ModelOptions& options);
BuiltModel build_qwen3(std::shared_ptr<Checkpoint> checkpoint, Device& device,
                       const ModelOptions& options);
BuiltModel build_gemma3(std::shared_ptr<Checkpoint> checkpoint, Device& device,
                        const ModelOptions& options);

}  // namespace ashlar

#endif  // ASHLAR_MODELS_FAMILIES_H_
