// A GGUF file as checkpoint contents: translated names and configuration, and the two flags.
// Nothing is un-permuted or subtracted here: a loader that copies rows anyway does it for free.
#include "checkpoint/contents.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_names.h"

namespace ashlar {

Result<CheckpointContents> read_gguf_checkpoint(const std::string& path) {
  CheckpointContents contents;
  ASHLAR_ASSIGN(contents.gguf, GgufFile::open(path));
  const GgufFile& file = *contents.gguf;
  ASHLAR_ASSIGN(const std::string architecture, gguf_architecture(file));
  ASHLAR_ASSIGN(contents.config, gguf_config(file, architecture));
  contents.path = path;
  contents.container = fmt::format("GGUF {}", file.version());
  contents.config_name = path + " (metadata)";
  contents.qk_rows_interleaved = architecture == "llama";
  contents.norm_weights_include_one =
      architecture == "gemma" || architecture == "gemma2" || architecture == "gemma3";
  contents.tensors.reserve(file.tensors().size());
  for (const GgufTensor& tensor : file.tensors()) {
    contents.tensors.push_back({hf_tensor_name(architecture, tensor.name), tensor.type,
                                tensor.shape, tensor.bytes.data(), tensor.bytes.size(), path,
                                nullptr, false, file.mapping()});
  }
  return contents;
}

}  // namespace ashlar
