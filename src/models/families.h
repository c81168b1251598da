// The families, one a file of this folder, and what their files share. To add one: its file, a line
// here and a line in the table of models.cc.
#ifndef ASHLAR_MODELS_FAMILIES_H_
#define ASHLAR_MODELS_FAMILIES_H_

#include <memory>

#include "models/model.h"

namespace ashlar {

// M has Status load(checkpoint, device, options).
template <class M>
Result<std::unique_ptr<Model>> build_model(std::shared_ptr<Checkpoint> checkpoint, Device& device,
                                           const ModelOptions& options) {
  auto model = std::make_unique<M>();
  ASHLAR_TRY(model->load(std::move(checkpoint), device, options));
  return model;
}

extern const ModelFamily llama_family;
extern const ModelFamily qwen2_family;
extern const ModelFamily qwen3_family;
extern const ModelFamily gemma3_family;

}  // namespace ashlar

#endif  // ASHLAR_MODELS_FAMILIES_H_
