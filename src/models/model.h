// Model: a network built from a checkpoint. It runs one step at a time and says what a sequence
// must keep; it knows neither scheduling nor sampling.
//
// A family is one file in this folder and one line in models.cc. A config value that the code does
// not honour is refused by name when the model is built, and so is a tensor that is missing, has
// another shape, or that nobody claims.
#ifndef ASHLAR_MODELS_MODEL_H_
#define ASHLAR_MODELS_MODEL_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cache/state_needs.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/load_wish.h"
#include "device/device.h"
#include "nn/paged_shape.h"
#include "nn/step.h"
#include "tensor/dtype.h"

namespace ashlar {

class ModelBuilder;

struct ModelInfo {
  std::string family;  // "llama"
  int64_t layers = 0;
  int64_t hidden = 0;          // D
  int64_t vocabulary = 0;      // V: columns of the logits, the checkpoint's rows
  int64_t decodable = 0;       // ids the tokenizer can print; columns from here on are -inf
  int64_t context_length = 0;  // positions the checkpoint was made for
  int64_t most_sequences = 0;  // that a step may have on its device; 0: any number
  int64_t weight_bytes = 0;    // that one step reads, as they are stored
  int64_t device_bytes = 0;    // that it keeps on its device; on the CPU, all that is stored
  std::string weight_formats;  // "Q4_1 60 %, Q8_0 40 %" by bytes
};

struct ModelOptions {
  std::optional<DType> kv_type;  // f16 (default) or f32 on the CPU, bf16 on CUDA
  int64_t decodable = 0;         // from the tokenizer; 0: every row of the head
  int64_t context_length = 0;    // positions to prepare for; 0, or beyond it: the checkpoint's
  LoadWish load;                 // of the weights
};

class Model {
 public:
  virtual ~Model() = default;
  // logits [R V] f32: row r belongs to output row r of the step; columns beyond the decodable
  // vocabulary are -inf.
  virtual void forward(Step& step, TensorView logits) = 0;
  // Upper bound of the scratch that a step of T rows, R of them output rows, takes from the
  // workspace.
  virtual int64_t workspace_bytes(int64_t rows, int64_t output_rows) const = 0;

  const ModelInfo& info() const { return info_; }
  void set_device_bytes(int64_t bytes) { info_.device_bytes = bytes; }
  const StateNeeds& state_needs() const { return state_needs_; }
  // Element type and shape of a page of PagedState i: [pages 2*G B K].
  using PagedShape = ashlar::PagedShape;
  std::span<const PagedShape> paged_shapes() const { return paged_shapes_; }

 protected:
  // Takes over what the builder gathered; the last step of building.
  void adopt(ModelInfo info, const ModelBuilder& builder,
             std::shared_ptr<const Checkpoint> checkpoint);

  ModelInfo info_;
  StateNeeds state_needs_;
  std::vector<PagedShape> paged_shapes_;

 private:
  std::shared_ptr<const Checkpoint> checkpoint_;  // weights read from its mapping
};

struct ModelFamily {
  const char* name;                          // "llama"
  std::span<const char* const> model_types;  // config.json model_type values it builds
  const char* title;  // for the support table: "Llama 2, 3; Mistral; SmolLM2"
  Result<std::unique_ptr<Model>> (*build)(std::shared_ptr<Checkpoint> checkpoint, Device& device,
                                          const ModelOptions& options);
};

std::span<const ModelFamily* const> model_families();

// Picks the family by model_type and builds. An unknown type is refused with the list of known
// ones.
Result<std::unique_ptr<Model>> load_model(std::shared_ptr<Checkpoint> checkpoint, Device& device,
                                          const ModelOptions& options);

}  // namespace ashlar

#endif  // ASHLAR_MODELS_MODEL_H_
