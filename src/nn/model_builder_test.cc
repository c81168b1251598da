// What the builder promises: refusals by name, the two ways in which files differ in content, and
// what it counts.
#include "nn/model_builder.h"

#include <gtest/gtest.h>

#include <memory>

#include "testing/gguf_writer.h"
#include "testing/temp_dir.h"

namespace ashlar {
namespace {

constexpr int64_t kHidden = 32;

class ModelBuilderTest : public testing::Test {
 protected:
  // A GGUF file of this architecture with the tensors that add() wrote.
  void open(std::string_view architecture) {
    writer_.set_string("general.architecture", architecture);
    const std::string path = dir_.write("model.gguf", writer_.build());
    auto checkpoint = Checkpoint::open(path, {});
    ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message;
    checkpoint_ = std::move(*checkpoint);
    builder_ = std::make_unique<ModelBuilder>(*checkpoint_, *device_, DType::kF16);
  }
  void add(std::string_view name, std::initializer_list<int64_t> shape, float first, float step) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(first + step * static_cast<float>(i));
    writer_.add_f32(name, shape, values);
  }
  // The outputs of a linear for an input of zeros: its bias.
  std::vector<float> outputs_for_zero(const Linear& linear) {
    const std::unique_ptr<Stream> stream = device_->new_stream();
    Workspace workspace(*device_->allocate(static_cast<size_t>(linear.workspace_bytes(1)) + 64));
    Step step = {*stream, workspace, {}, {}, {}, {}, {}, {}, {}, {}, nullptr};
    std::vector<float> x(static_cast<size_t>(linear.inputs()), 0.0f);
    std::vector<float> y(static_cast<size_t>(linear.outputs()), -1.0f);
    linear(step, TensorView(x.data(), DType::kF32, {1, linear.inputs()}),
           TensorView(y.data(), DType::kF32, {1, linear.outputs()}));
    return y;
  }
  std::string message(const auto& result) {
    return result.has_value() ? "" : result.error().message;
  }

  TempDir dir_;
  GgufWriter writer_;
  std::unique_ptr<Device> device_ = new_cpu_device(1);
  std::shared_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<ModelBuilder> builder_;
};

TEST_F(ModelBuilderTest, NamesMissingMisshapenAndUnclaimedTensors) {
  add("blk.0.attn_norm.weight", {kHidden}, 1, 0);
  add("blk.0.attn_output.weight", {kHidden, kHidden}, 0, 0);
  open("qwen2");
  const auto missing =
      builder_->linear({{.name = "model.layers.0.mlp.up_proj", .outputs = 8}}, kHidden, false);
  EXPECT_NE(message(missing).find("model.layers.0.mlp.up_proj.weight"), std::string::npos)
      << message(missing);
  const auto bias = builder_->linear(
      {{.name = "model.layers.0.self_attn.o_proj", .outputs = kHidden}}, kHidden, true);
  EXPECT_NE(message(bias).find("model.layers.0.self_attn.o_proj.bias"), std::string::npos)
      << message(bias);
  const auto shape = builder_->linear({{.name = "model.layers.0.self_attn.o_proj", .outputs = 48}},
                                      kHidden, false);
  EXPECT_NE(message(shape).find("model.layers.0.self_attn.o_proj.weight"), std::string::npos)
      << message(shape);
  const auto norm = builder_->norm("model.layers.0.input_layernorm", 16, 1e-5, NormWeight::kPlain);
  EXPECT_NE(message(norm).find("has shape [32], but the configuration says [16]"),
            std::string::npos)
      << message(norm);
  ASSERT_TRUE(builder_->norm("model.layers.0.input_layernorm", kHidden, 1e-5, NormWeight::kPlain)
                  .has_value());
}

TEST_F(ModelBuilderTest, RefusesWhatNobodyClaimed) {
  add("blk.0.attn_norm.weight", {kHidden}, 1, 0);
  add("blk.0.attn_norm.bias", {kHidden}, 1, 0);
  open("qwen2");
  ASSERT_TRUE(builder_->norm("model.layers.0.input_layernorm", kHidden, 1e-5, NormWeight::kPlain)
                  .has_value());
  EXPECT_NE(message(builder_->finish()).find("input_layernorm.bias"), std::string::npos)
      << message(builder_->finish());
}

TEST_F(ModelBuilderTest, AddsOneToNormWeightsUnlessTheFileDid) {
  for (const bool gemma : {true, false}) {
    writer_ = GgufWriter();
    add("output_norm.weight", {2}, 0.5f, 1.0f);
    open(gemma ? "gemma3" : "qwen3");
    const auto norm = builder_->norm("model.norm", 2, 1e-5, NormWeight::kPlusOne);
    ASSERT_TRUE(norm.has_value()) << message(norm);
    EXPECT_EQ(norm->weight().as<float>()[0], gemma ? 0.5f : 1.5f);
    EXPECT_EQ(norm->weight().as<float>()[1], gemma ? 1.5f : 2.5f);
  }
}

// Architecture llama: file row 2i + p of a head is row p * K/2 + i. Biases of q and k move with the
// rows, v stays.
TEST_F(ModelBuilderTest, MovesBiasesOfRotatedPairs) {
  add("blk.0.attn_q.weight", {8, kHidden}, 0, 0);
  add("blk.0.attn_q.bias", {8}, 0, 1);
  add("blk.0.attn_v.weight", {4, kHidden}, 0, 0);
  add("blk.0.attn_v.bias", {4}, 100, 1);
  open("llama");
  const auto linear = builder_->linear(
      {{.name = "model.layers.0.self_attn.q_proj", .outputs = 8, .rotated_head = 4},
       {.name = "model.layers.0.self_attn.v_proj", .outputs = 4}},
      kHidden, true);
  ASSERT_TRUE(linear.has_value()) << message(linear);
  EXPECT_EQ(outputs_for_zero(*linear),
            (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7, 100, 101, 102, 103}));
}

TEST_F(ModelBuilderTest, AcceptsATiedHeadThatIsStoredAgainOnlyIfEqual) {
  for (const bool equal : {true, false}) {
    writer_ = GgufWriter();
    add("token_embd.weight", {4, kHidden}, 0, 0.5f);
    add("output.weight", {4, kHidden}, equal ? 0.0f : 1.0f, 0.5f);
    open("qwen2");
    const auto embedding = builder_->embedding("model.embed_tokens", 4, kHidden, 1.0, false);
    ASSERT_TRUE(embedding.has_value()) << message(embedding);
    const auto head = builder_->head("lm_head", *embedding, true, 4);
    EXPECT_EQ(head.has_value(), equal) << message(head);
    if (equal) {
      EXPECT_TRUE(builder_->finish().has_value());
    } else {
      EXPECT_NE(message(head).find("lm_head.weight"), std::string::npos) << message(head);
    }
  }
}

TEST_F(ModelBuilderTest, CountsStateAndBytes) {
  add("token_embd.weight", {4, kHidden}, 0, 0.5f);
  open("qwen2");
  EXPECT_EQ(builder_->add_paged(2, 64, 0), 0);
  EXPECT_EQ(builder_->add_paged(1, 64, 100), 1);
  EXPECT_EQ(builder_->state_needs().paged[0].bytes_per_position, 2 * 2 * 64 * 2);
  EXPECT_EQ(builder_->state_needs().paged[1].window, 100);
  EXPECT_EQ(builder_->paged_shapes()[1].heads, 1);
  const auto embedding = builder_->embedding("model.embed_tokens", 4, kHidden, 1.0, false);
  ASSERT_TRUE(embedding.has_value()) << message(embedding);
  EXPECT_EQ(builder_->weight_bytes(), 0);  // a step reads a few rows of it
  ASSERT_TRUE(builder_->head("lm_head", *embedding, true, 4).has_value());
  EXPECT_EQ(builder_->weight_bytes(), 4 * kHidden * 4);
  EXPECT_TRUE(builder_->weight_formats().ends_with(" 100 %")) << builder_->weight_formats();
}

}  // namespace
}  // namespace ashlar
