// Shapes against numbers worked out by hand, and baselines that are refused as a whole.
#include "bench_matmuls.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/synthetic_spec.h"

namespace ashlar {
namespace {

nlohmann::json config_of(const char* model) {
  return synthetic_config(parse_synthetic(model).value());
}

TEST(BenchMatmuls, ShapesOfLlama8B) {
  const std::vector<MatmulShape> shapes = model_matmuls(config_of("synthetic:llama-3.1-8b"), 0);
  ASSERT_EQ(shapes.size(), 5u);
  const int64_t wanted[5][2] = {
      {6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}, {128256, 4096}};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(shapes[i].outputs, wanted[i][0]) << shapes[i].part;
    EXPECT_EQ(shapes[i].inputs, wanted[i][1]) << shapes[i].part;
  }
  EXPECT_EQ(shapes[4].part, "head");
  EXPECT_EQ(shapes[4].least_outputs, 128256);
}

TEST(BenchMatmuls, FoundByTheirFlops) {
  const std::vector<MatmulShape> shapes = model_matmuls(config_of("synthetic:qwen3-8b"), 151669);
  const auto down = find_matmul(shapes, 2LL * 16 * 4096 * 12288, 16, 16);
  ASSERT_TRUE(down);
  EXPECT_EQ(down->shape->part, "down");
  EXPECT_EQ(down->rows, 16);
  // The head has as many rows as tokens are wanted, and may skip columns.
  for (const int64_t columns : {151936, 151669}) {
    const auto head = find_matmul(shapes, 2LL * 1 * columns * 4096, 2048, 1);
    ASSERT_TRUE(head) << columns;
    EXPECT_EQ(head->shape->part, "head");
    EXPECT_EQ(head->rows, 1);
    EXPECT_EQ(head->shape->outputs, 151936);
  }
  EXPECT_FALSE(find_matmul(shapes, 2LL * 16 * 4096 * 12288 + 2, 16, 16));
  EXPECT_FALSE(find_matmul(shapes, 2LL * 16 * 4096 * 12288, 7, 7));
}

TEST(BenchMatmuls, ABaselineIsReadWholeOrRefused) {
  const nlohmann::json good = {{"rows", 8}, {"outputs", 100}, {"inputs", 50}, {"us", 2.0}};
  const auto baseline = MatmulBaseline::parse(
      {{"device", "NVIDIA H200"}, {"library", "cuBLAS"}, {"results", {good}}});
  ASSERT_TRUE(baseline);
  EXPECT_DOUBLE_EQ(baseline->seconds(8, 100, 50).value(), 2e-6);
  EXPECT_FALSE(baseline->seconds(4, 100, 50));
  EXPECT_DOUBLE_EQ(baseline->best_flops(), 2.0 * 8 * 100 * 50 / 2e-6);
  EXPECT_EQ(baseline->title(), "NVIDIA H200, cuBLAS");
  for (const char* field : {"rows", "outputs", "inputs", "us"}) {
    nlohmann::json bad = good;
    bad[field] = 0;
    EXPECT_FALSE(MatmulBaseline::parse({{"results", {good, bad}}})) << field;
    bad.erase(field);
    EXPECT_FALSE(MatmulBaseline::parse({{"results", {good, bad}}})) << field;
  }
  for (const char* text : {"[]", "{}", "3", R"({"results": 3})", R"({"results": [3]})"}) {
    EXPECT_FALSE(MatmulBaseline::parse(nlohmann::json::parse(text))) << text;
  }
  EXPECT_NE(MatmulBaseline::read("/no/such.json").error().message.find("/no/such.json"),
            std::string::npos);
}

}  // namespace
}  // namespace ashlar
