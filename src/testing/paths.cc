// The paths are compile definitions of this one file (cmake/tests.cmake), so that no other object
// depends on where the repository lies.
#include "testing/paths.h"

namespace ashlar {

std::filesystem::path source_dir() { return ASHLAR_SOURCE_DIR; }

std::filesystem::path models_dir() { return ASHLAR_MODELS_DIR; }

std::filesystem::path smollm2_path() { return models_dir() / "SmolLM2-135M-Instruct.Q4_1.gguf"; }

std::filesystem::path gemma3_path() { return models_dir() / "gemma-3-270m-q4_k_m.gguf"; }

std::filesystem::path qwen3_tokenizer_dir() { return models_dir() / "qwen3-tokenizer"; }

}  // namespace ashlar
