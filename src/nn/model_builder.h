// ModelBuilder: what a model is built with. It finds tensors by name, refuses those that are
// missing or have another shape, remembers what the layers need to keep, and knows the two ways in
// which files differ in content: the row order of rotated projections and norm weights that already
// include one.
//
// It lives while a model is built. What it hands out keeps no reference to it; weights read from
// the mapped checkpoint, so the model keeps that alive.
#ifndef ASHLAR_NN_MODEL_BUILDER_H_
#define ASHLAR_NN_MODEL_BUILDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "cache/state_needs.h"
#include "checkpoint/checkpoint.h"
#include "device/device.h"
#include "formats/weight_loader.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/paged_shape.h"

namespace ashlar {

// How a family means its norm weights: y = x/rms * w, or x/rms * (1 + w).
enum class NormWeight : uint8_t { kPlain, kPlusOne };

// One matrix of a fused linear.
struct MatrixSpec {
  std::string name;  // "model.layers.0.self_attn.q_proj"
  int64_t outputs = 0;
  int64_t rotated_head = 0;  // head size, where rope is applied to the outputs; else 0
};

class ModelBuilder {
 public:
  // kv_type: of keys and values; none: what the backend takes by default.
  ModelBuilder(const Checkpoint& checkpoint, Device& device, std::optional<DType> kv_type)
      : checkpoint_(checkpoint),
        device_(device),
        kv_type_(kv_type.value_or(default_kv_type(device.backend()))),
        loader_(device) {}

  Device& device() { return device_; }
  const Checkpoint& checkpoint() const { return checkpoint_; }

  // Outputs in the order of the parts. With bias, every part must have one.
  Result<Linear> linear(std::vector<MatrixSpec> parts, int64_t inputs, bool bias,
                        WeightUse use = WeightUse::kApply);
  Result<Norm> norm(const std::string& name, int64_t size, double eps, NormWeight meaning);
  // tied: the head will share the weight.
  Result<Embedding> embedding(const std::string& name, int64_t vocabulary, int64_t hidden,
                              double scale, bool tied);
  // The head of its own tensor, or the embedding's weight when tied. Columns from `decodable` on
  // give -inf. A tied model whose file holds the head again is accepted if the bytes are the same.
  Result<Head> head(const std::string& name, const Embedding& embedding, bool tied,
                    int64_t decodable);
  // The numbers of a small tensor [size], or nothing if it is not there.
  Result<std::vector<float>> optional_vector(const std::string& name, int64_t size);
  // Marks tensors as seen that have no influence, such as stored tables of frequencies.
  void ignore_tensor(const std::string& name) { checkpoint_.claim(name); }

  int add_paged(int64_t kv_heads, int64_t head_size, int64_t window);
  // That a step may have on the device; 0: any number.
  int64_t most_sequences() const;

  // Refuses tensors that nothing claimed, then brings the weights to the device. To be called last,
  // while all that was handed out is alive.
  Status finish(const LoadWish& wish = {});

  const StateNeeds& state_needs() const { return state_needs_; }
  const std::vector<PagedShape>& paged_shapes() const { return paged_shapes_; }
  int64_t weight_bytes() const { return weight_bytes_; }
  std::string weight_formats() const;  // "Q4_1 60 %, Q8_0 40 %" by bytes

 private:
  Result<std::shared_ptr<const Weight>> load(std::span<const MatrixSpec> parts, int64_t inputs,
                                             WeightUse use);
  Result<std::vector<float>> vector(const std::string& name, int64_t size);
  Result<Buffer> upload(std::span<const float> values);
  void count(const Weight& weight);

  const Checkpoint& checkpoint_;
  Device& device_;
  DType kv_type_;
  WeightLoader loader_;
  StateNeeds state_needs_;
  std::vector<PagedShape> paged_shapes_;
  int64_t weight_bytes_ = 0;                        // that a step reads
  std::map<std::string, int64_t> bytes_by_format_;  // the same, by name
};

}  // namespace ashlar

#endif  // ASHLAR_NN_MODEL_BUILDER_H_
