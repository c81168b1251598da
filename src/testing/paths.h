// Where tests find their data: the source folder and the folder of fetched models.
//
// Both are fixed when the build is configured, so no test reads the environment. A fetched model
// may be absent (`./do test` fetches it, a bare `ctest` does not): a test that needs one calls
// GTEST_SKIP with the path, and is then listed as skipped, never as passed.
#ifndef ASHLAR_TESTING_PATHS_H_
#define ASHLAR_TESTING_PATHS_H_

#include <filesystem>

namespace ashlar {

// The root of the repository.
std::filesystem::path source_dir();

// The folder that `./do` fetches models into: SmolLM2-135M-Instruct.Q4_1.gguf,
// gemma-3-270m-q4_k_m.gguf, qwen3-tokenizer/tokenizer.json and
// qwen3-tokenizer/tokenizer_config.json.
std::filesystem::path models_dir();

std::filesystem::path smollm2_path();
std::filesystem::path gemma3_path();
std::filesystem::path qwen3_tokenizer_dir();

}  // namespace ashlar

#endif  // ASHLAR_TESTING_PATHS_H_
