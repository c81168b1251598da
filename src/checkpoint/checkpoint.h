// Checkpoint: the named, memory-mapped tensors of a model and its configuration, with one face for
// GGUF and safetensors.
//
// Tensor names and configuration keys are those of Hugging Face, whatever the file calls them. What
// a name means is not known here: models ask for tensors by name, formats look at the types of a
// group. Nothing is decoded or copied. Two facts about the *contents* of GGUF files differ from
// Hugging Face's and are flags, see below.
#ifndef ASHLAR_CHECKPOINT_CHECKPOINT_H_
#define ASHLAR_CHECKPOINT_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "checkpoint/gguf.h"
#include "checkpoint/hub_paths.h"
#include "checkpoint/storage_type.h"

namespace ashlar {

struct StoredTensor {
  std::string name;  // Hugging Face's: "model.layers.0.self_attn.q_proj.weight"
  StorageType type = StorageType::kF32;
  std::vector<int64_t> shape;  // [N K], outermost first; may be empty (one element)
  // In the mapping. Plain numbers are aligned to their size; GGML blocks are not aligned inside.
  const std::byte* data = nullptr;
  size_t bytes = 0;
  std::string file;  // where it lies, for messages

  int64_t elements() const;
  int64_t columns() const;   // extent of the contiguous axis; 1 for an empty shape
  int64_t rows() const;      // elements() / columns(); 0 if empty
  size_t row_bytes() const;  // bytes from one row to the next; rows are packed without padding
};

class Checkpoint;

// The tensors whose names start with "prefix.". A light handle: it must not outlive its Checkpoint.
class TensorGroup {
 public:
  TensorGroup(const Checkpoint& checkpoint, std::string prefix)
      : checkpoint_(&checkpoint), prefix_(std::move(prefix)) {}

  const std::string& prefix() const { return prefix_; }
  const Checkpoint& checkpoint() const { return *checkpoint_; }
  // find looks, claim also records the use. Both take what follows the dot: "weight".
  const StoredTensor* find(std::string_view suffix) const;
  const StoredTensor* claim(std::string_view suffix) const;
  TensorGroup group(std::string_view suffix) const;
  std::vector<const StoredTensor*> tensors() const;  // sorted by name
  bool empty() const { return tensors().empty(); }

 private:
  const Checkpoint* checkpoint_;
  std::string prefix_;
};

class Checkpoint {
 public:
  // model_argument: a folder, a .gguf file, or a hub id "org/name" in the local cache. A path that
  // exists wins.
  static Result<std::shared_ptr<Checkpoint>> open(const std::string& model_argument,
                                                  const HubPaths& hub);
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  const std::string& path() const;       // the folder or file that was opened
  const std::string& container() const;  // "GGUF 3", "safetensors"

  const std::vector<StoredTensor>& tensors() const;  // in file order
  const StoredTensor* find(std::string_view name) const;
  TensorGroup group(std::string_view prefix) const { return {*this, std::string(prefix)}; }

  // Claims record what a loader used; any thread may claim. A loader that is done refuses what
  // unclaimed() lists.
  const StoredTensor* claim(std::string_view name) const;
  std::vector<const StoredTensor*> unclaimed() const;  // in file order
  // Error that names the unclaimed tensors (the first few, and how many).
  Status refuse_unclaimed() const;

  // The configuration with Hugging Face's keys; config_name() is what messages should call it.
  const nlohmann::json& config() const;
  const std::string& config_name() const;
  const nlohmann::json* generation_config() const;  // nullptr where there is none (always for GGUF)

  // Text of a file beside the weights ("tokenizer.json", "chat_template.jinja"); nullopt where
  // there is none, and always for GGUF, whose tokenizer and template are metadata. The name must be
  // plain, without folders.
  Result<std::optional<std::string>> optional_text(std::string_view file) const;

  const GgufFile* gguf() const;  // nullptr for safetensors

  // Rows of q and k projections (weight and bias) are stored so that rotation pairs are adjacent:
  // file row h*K + 2i + p is Hugging Face's row h*K + p*K/2 + i (K the head size). True for GGUF
  // files of architecture llama.
  bool qk_rows_interleaved() const;
  // Norm weights are stored as 1 + w, not w as in Hugging Face's files. True for GGUF files of
  // gemma.
  bool norm_weights_include_one() const;

 private:
  friend class TensorGroup;
  struct Data;
  explicit Checkpoint(std::unique_ptr<Data> data);
  std::unique_ptr<Data> data_;
};

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_CHECKPOINT_H_
