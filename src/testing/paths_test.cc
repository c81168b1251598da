// Checks that the configured folders are absolute and that the source folder is this repository.
#include "testing/paths.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

TEST(Paths, SourceDirIsTheRepository) {
  EXPECT_TRUE(source_dir().is_absolute());
  EXPECT_TRUE(std::filesystem::exists(source_dir() / "src" / "LAYERS"));
}

TEST(Paths, ModelsLieInTheModelsDir) {
  EXPECT_TRUE(models_dir().is_absolute());
  EXPECT_EQ(smollm2_path().parent_path(), models_dir());
  EXPECT_EQ(gemma3_path().parent_path(), models_dir());
  EXPECT_EQ(qwen3_tokenizer_dir().parent_path(), models_dir());
}

}  // namespace
}  // namespace ashlar
