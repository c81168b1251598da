// The tiny models of tests/golden exist as a Hugging Face folder and as a GGUF file made by another
// program. Both must open to the same names, shapes, bytes and settings, apart from the two
// differences that Checkpoint flags.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "testing/paths.h"

namespace ashlar {
namespace {

struct Pair {
  std::string name;
  std::shared_ptr<Checkpoint> folder;
  std::shared_ptr<Checkpoint> file;
};

std::vector<Pair> open_pairs() {
  std::vector<Pair> pairs;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() / "tests" / "golden" / "tiny")) {
    const std::filesystem::path file = entry.path().string() + ".gguf";
    if (!entry.is_directory() || !std::filesystem::exists(file)) continue;
    auto folder = Checkpoint::open(entry.path().string(), {});
    auto gguf = Checkpoint::open(file.string(), {});
    EXPECT_TRUE(folder.has_value()) << folder.error().message;
    EXPECT_TRUE(gguf.has_value()) << gguf.error().message;
    if (folder && gguf) pairs.push_back({entry.path().filename().string(), *folder, *gguf});
  }
  return pairs;
}

bool is_interleaved(const Checkpoint& file, const std::string& name) {
  return file.qk_rows_interleaved() &&
         (name.find(".q_proj.") != std::string::npos || name.find(".k_proj.") != std::string::npos);
}

// Row r of the file as the row of the same head in Hugging Face's order.
int64_t hf_row(int64_t row, int64_t head_size) {
  const int64_t head = row / head_size;
  const int64_t within = row % head_size;
  return head * head_size + (within % 2) * (head_size / 2) + within / 2;
}

TEST(TinyPairs, NamesShapesAndBytes) {
  const std::vector<Pair> pairs = open_pairs();
  ASSERT_GE(pairs.size(), 6u);
  int compared = 0;
  for (const Pair& pair : pairs) {
    SCOPED_TRACE(pair.name);
    const int64_t head_size = pair.file->config()["head_dim"].get<int64_t>();
    for (const StoredTensor& tensor : pair.folder->tensors()) {
      SCOPED_TRACE(tensor.name);
      const StoredTensor* other = pair.file->find(tensor.name);
      ASSERT_NE(other, nullptr);
      EXPECT_EQ(other->shape, tensor.shape);
      // Norms and biases become F32 in a GGUF file; such pairs are compared by the models' tests.
      if (other->type != tensor.type || tensor.name.find("norm") != std::string::npos) continue;
      ++compared;
      const bool interleaved = is_interleaved(*pair.file, tensor.name);
      // Rows of a weight; elements of a bias.
      const int64_t rows = tensor.shape[0];
      const size_t bytes = tensor.bytes / static_cast<size_t>(rows);
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t source = interleaved ? hf_row(row, head_size) : row;
        ASSERT_EQ(std::memcmp(other->data() + static_cast<size_t>(row) * bytes,
                              tensor.data() + static_cast<size_t>(source) * bytes, bytes),
                  0)
            << "row " << row;
      }
    }
    for (const StoredTensor& tensor : pair.file->tensors()) {
      EXPECT_TRUE(pair.folder->find(tensor.name) != nullptr || tensor.name == "rope_freqs.weight")
          << tensor.name;
    }
  }
  EXPECT_GT(compared, 60);
}

TEST(TinyPairs, Settings) {
  for (const Pair& pair : open_pairs()) {
    SCOPED_TRACE(pair.name);
    const nlohmann::json& folder = pair.folder->config();
    const nlohmann::json& file = pair.file->config();
    for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers",
                            "num_attention_heads", "num_key_value_heads", "max_position_embeddings",
                            "rms_norm_eps", "vocab_size", "tie_word_embeddings"}) {
      ASSERT_TRUE(folder.contains(key)) << key;
      ASSERT_TRUE(file.contains(key)) << key;
      EXPECT_EQ(file[key], folder[key]) << key;
    }
    for (const char* key : {"head_dim", "query_pre_attn_scalar", "sliding_window", "layer_types",
                            "rope_local_base_freq", "hidden_act", "hidden_activation"}) {
      if (!folder.contains(key) || !file.contains(key)) continue;
      EXPECT_EQ(file[key], folder[key]) << key;
    }
    // Old folders name the base on the outside, newer ones inside rope_parameters.
    const nlohmann::json& base = folder.contains("rope_theta")
                                     ? folder["rope_theta"]
                                     : folder["rope_parameters"]["rope_theta"];
    EXPECT_EQ(file["rope_theta"], base);
  }
}

}  // namespace
}  // namespace ashlar
