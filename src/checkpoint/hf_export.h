// Writes a checkpoint as a Hugging Face folder that other programs load: config.json, safetensors
// in shards with an index, and the files of tokenizer and generation.
//
// Tensors and the tokenizer's files are written byte for byte as they are stored; nothing is
// converted. The two JSON files of the configuration are written anew, with the same content, and
// the shards are cut anew. A GGUF file is refused: its blocks, row orders and tokenizer have no
// form in such a folder. Files get their names when all of them are complete on the disk, so what
// has a final name is whole.
#ifndef ASHLAR_CHECKPOINT_HF_EXPORT_H_
#define ASHLAR_CHECKPOINT_HF_EXPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace ashlar {

struct ExportOptions {
  int64_t shard_bytes = 4'000'000'000;  // of tensors in one file; a larger tensor has its own
};

struct ExportedFile {
  std::string name;
  int64_t bytes = 0;
};

// folder is created, with its parents, or must be empty. On failure all is as it was before.
Result<std::vector<ExportedFile>> export_hf_folder(const Checkpoint& checkpoint,
                                                   const std::string& folder,
                                                   const ExportOptions& options = {});

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_HF_EXPORT_H_
