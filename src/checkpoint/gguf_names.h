// Tensor names of GGUF files as Hugging Face's names.
// A name without a translation is kept, so that a loader can refuse it by the name that the file
// uses.
#ifndef ASHLAR_CHECKPOINT_GGUF_NAMES_H_
#define ASHLAR_CHECKPOINT_GGUF_NAMES_H_

#include <string>
#include <string_view>

namespace ashlar {

// ("llama", "blk.3.ffn_norm.weight") → "model.layers.3.post_attention_layernorm.weight"
std::string hf_tensor_name(std::string_view architecture, std::string_view gguf_name);

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_GGUF_NAMES_H_
