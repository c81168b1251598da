// The configuration of a GGUF file as JSON with Hugging Face's keys.
//
// Every key under the architecture's prefix is either translated, or kept under its own name
// ("llama.logit_scale") so that the model refuses it by that name. Keys outside the prefix
// (general., tokenizer.) are not configuration.
#ifndef ASHLAR_CHECKPOINT_GGUF_CONFIG_H_
#define ASHLAR_CHECKPOINT_GGUF_CONFIG_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/error.h"
#include "checkpoint/gguf.h"

namespace ashlar {

// general.architecture; an error if it is missing or no plain name, or if the file holds no model
// (general.type).
Result<std::string> gguf_architecture(const GgufFile& file);

// Errors name the file and the key: a value of the wrong kind, or a number that no model can have.
Result<nlohmann::json> gguf_config(const GgufFile& file, const std::string& architecture);

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_GGUF_CONFIG_H_
