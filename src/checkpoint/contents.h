// What a reader of one kind of checkpoint hands to Checkpoint. Internal to checkpoint/.
#ifndef ASHLAR_CHECKPOINT_CONTENTS_H_
#define ASHLAR_CHECKPOINT_CONTENTS_H_

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf.h"
#include "checkpoint/safetensors.h"

namespace ashlar {

struct CheckpointContents {
  std::string path;
  std::string container;  // "GGUF 3", "safetensors", "synthetic"
  std::string folder;     // where optional_text() looks; empty for GGUF and synthetic
  // What optional_text() gives where there are no files.
  std::function<std::optional<std::string>(std::string_view file)> generated_text;
  std::vector<StoredTensor> tensors;
  nlohmann::json config = nlohmann::json::object();
  std::string config_name;
  std::optional<nlohmann::json> generation_config;
  bool qk_rows_interleaved = false;
  bool norm_weights_include_one = false;

  // What the tensors' data pointers point into.
  std::optional<GgufFile> gguf;
  std::vector<SafetensorsFile> shards;
};

Result<CheckpointContents> read_gguf_checkpoint(const std::string& path);

Result<CheckpointContents> read_synthetic_checkpoint(const std::string& argument, TensorUse use);

// A folder with config.json and model.safetensors or model.safetensors.index.json.
Result<CheckpointContents> read_hf_folder(const std::string& folder);
// Whether a folder has safetensors weights under one of the two names.
bool is_hf_folder(const std::string& folder);

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_CONTENTS_H_
