// Weights as layers see them, from real files: every storage type loads, dequantises, gathers and
// applies alike; types fuse; what does not fit is refused with the tensor's name.
#include <gtest/gtest.h>

#include <bit>
#include <memory>

#include "base/align.h"
#include "formats/format.h"
#include "testing/gguf_writer.h"
#include "testing/random.h"
#include "testing/random_packed.h"
#include "testing/safetensors_writer.h"
#include "testing/temp_dir.h"
#include "testing/tolerance.h"

namespace ashlar {
namespace {

struct Tensor {
  std::string prefix;
  StorageType type;
  int64_t rows;
  int64_t columns;
};

// A checkpoint of random tensors "<prefix>.weight" and a device. Seeds follow the order.
class FormatsTest : public ::testing::Test {
 protected:
  void open(const std::vector<Tensor>& tensors) {
    GgufWriter writer;
    writer.set_string("general.architecture", "llama");
    for (const Tensor& tensor : tensors) add(writer, tensor);
    open_bytes(writer.build());
  }

  void add(GgufWriter& writer, const Tensor& tensor) {
    const std::vector<int64_t> shape = {tensor.rows, tensor.columns};
    writer.add_tensor(tensor.prefix + ".weight", tensor.type, shape,
                      random_packed(tensor.type, tensor.rows * tensor.columns, ++seed_));
  }

  void open_bytes(const std::vector<std::byte>& bytes) {
    auto opened = Checkpoint::open(dir_.write("model.gguf", bytes), {});
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    checkpoint_ = *opened;
  }

  WeightPart part(const std::string& prefix, int64_t outputs, int64_t inputs) {
    return {.tensors = checkpoint_->group(prefix), .outputs = outputs, .inputs = inputs};
  }

  std::unique_ptr<Weight> load(std::vector<WeightPart> parts) {
    auto weight = load_weight(parts, *device_);
    EXPECT_TRUE(weight.has_value()) << weight.error().message;
    return weight.has_value() ? std::move(*weight) : nullptr;
  }

  std::string refusal(std::vector<WeightPart> parts) {
    auto weight = load_weight(parts, *device_);
    return weight.has_value() ? "loaded" : weight.error().message;
  }

  // y of apply() with no epilogue.
  std::vector<float> apply(const Weight& weight, std::vector<float> x, int64_t rows) {
    std::vector<float> y(static_cast<size_t>(rows * weight.outputs()));
    const int64_t bytes = weight.workspace_bytes(rows);
    Workspace workspace(device_->allocate(static_cast<size_t>(bytes)).value());
    weight.apply(*stream_, workspace, TensorView(x.data(), DType::kF32, {rows, weight.inputs()}),
                 TensorView(y.data(), DType::kF32, {rows, weight.outputs()}), {});
    EXPECT_EQ(workspace.used_bytes(), 0u);
    EXPECT_LE(static_cast<int64_t>(workspace.peak_bytes()), bytes);
    return y;
  }

  std::vector<float> truth(const Weight& weight) {
    std::vector<float> values(static_cast<size_t>(weight.outputs() * weight.inputs()));
    weight.dequantize(0, weight.outputs(), values.data());
    return values;
  }

  uint64_t seed_ = 0;
  TempDir dir_;
  std::unique_ptr<Device> device_ = new_cpu_device(2);
  std::unique_ptr<Stream> stream_ = device_->new_stream();
  std::shared_ptr<Checkpoint> checkpoint_;
};

void expect_same_bits(std::span<const float> got, std::span<const float> wanted,
                      const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(wanted[i]))
        << what << ", element " << i;
  }
}

bool becomes_panels(StorageType type) {
  switch (type) {
    case StorageType::kQ4_0:
    case StorageType::kQ4_1:
    case StorageType::kQ5_0:
    case StorageType::kQ5_1:
    case StorageType::kQ8_0:
    case StorageType::kQ4_K:
    case StorageType::kQ5_K:
    case StorageType::kQ6_K:
      return true;
    default:
      return false;
  }
}

constexpr int64_t kOutputs = 37;
constexpr int64_t kInputs = 1280;

TEST_F(FormatsTest, EveryTypeAppliesWithinTheToleranceOfItsTruth) {
  for (const StorageType type : weight_storage_types()) {
    const std::string name(storage_name(type));
    open({{"a", type, kOutputs, kInputs}});
    const auto weight = load({part("a", kOutputs, kInputs)});
    ASSERT_NE(weight, nullptr);
    EXPECT_EQ(weight->format(), name);
    EXPECT_EQ(weight->outputs(), kOutputs);
    EXPECT_EQ(weight->inputs(), kInputs);
    // Panels round the rows up to 16, and some scales take more room in them.
    const int64_t rows_bytes = *tensor_bytes(type, std::vector<int64_t>{kOutputs, kInputs});
    const int64_t panel_bytes =
        *tensor_bytes(type, std::vector<int64_t>{round_up(kOutputs, 16), kInputs});
    const bool panels = weight->storage_bytes() != rows_bytes;
    EXPECT_EQ(panels, becomes_panels(type)) << name;
    if (panels) {
      EXPECT_GE(weight->storage_bytes(), panel_bytes) << name;
      EXPECT_LE(weight->storage_bytes(), panel_bytes * 103 / 100) << name;
    }
    EXPECT_TRUE(checkpoint_->unclaimed().empty());
    const std::vector<float> w = truth(*weight);
    EXPECT_GT(norm(w), 0.1) << name;
    for (const int64_t rows : {1, 3, 40}) {
      const std::vector<float> x = random_floats(100 + rows, rows * kInputs, 1.0f);
      const std::vector<float> y = apply(*weight, x, rows);
      for (int64_t m = 0; m < rows; ++m) {
        const std::span<const float> x_row = std::span(x).subspan(m * kInputs, kInputs);
        for (int64_t n = 0; n < kOutputs; ++n) {
          const std::span<const float> w_row = std::span(w).subspan(n * kInputs, kInputs);
          double exact = 0;
          for (int64_t k = 0; k < kInputs; ++k) exact += static_cast<double>(x_row[k]) * w_row[k];
          const double tolerance = dot_tolerance(
              {.x_norm = norm(x_row), .w_norm = norm(w_row), .length = kInputs, .chains = 16});
          ASSERT_LE(std::abs(y[m * kOutputs + n] - exact), tolerance)
              << name << " " << m << " " << n;
        }
      }
    }
  }
}

TEST_F(FormatsTest, BitsOfARowDoNotDependOnTheBatch) {
  for (const StorageType type : weight_storage_types()) {
    open({{"a", type, kOutputs, kInputs}});
    const auto weight = load({part("a", kOutputs, kInputs)});
    ASSERT_NE(weight, nullptr);
    const std::vector<float> row = random_floats(7, kInputs, 1.0f);
    const std::vector<float> alone = apply(*weight, row, 1);
    for (const int64_t rows : {2, 5, 8, 9, 24, 64}) {
      for (const int64_t place : {int64_t{0}, rows - 1}) {
        std::vector<float> x = random_floats(8, rows * kInputs, 1.0f);
        std::copy(row.begin(), row.end(), x.begin() + place * kInputs);
        const std::vector<float> y = apply(*weight, x, rows);
        expect_same_bits(std::span(y).subspan(place * kOutputs, kOutputs), alone,
                         std::string(storage_name(type)));
      }
    }
  }
}

TEST_F(FormatsTest, GatherIsTheTruthTimesTheScale) {
  for (const StorageType type : weight_storage_types()) {
    open({{"a", type, kOutputs, kInputs}});
    const auto weight = load({part("a", kOutputs, kInputs)});
    ASSERT_NE(weight, nullptr);
    const std::vector<float> w = truth(*weight);
    std::vector<int32_t> ids = {36, 0, 5, 5};
    std::vector<float> y(ids.size() * kInputs);
    for (const float scale : {1.0f, 25.298221f}) {
      weight->gather(*stream_, TensorView(ids.data(), DType::kI32, {4}),
                     TensorView(y.data(), DType::kF32, {4, kInputs}), scale);
      for (size_t t = 0; t < ids.size(); ++t) {
        std::vector<float> wanted(w.begin() + ids[t] * kInputs, w.begin() + (ids[t] + 1) * kInputs);
        for (float& value : wanted) value *= scale;
        expect_same_bits(std::span(y).subspan(t * kInputs, kInputs), wanted,
                         std::string(storage_name(type)));
      }
    }
  }
}

TEST_F(FormatsTest, PartsOfDifferentTypesFuse) {
  open({{"q", StorageType::kQ5_0, 64, 512},
        {"k", StorageType::kQ8_0, 32, 512},
        {"v", StorageType::kQ6_K, 32, 512},
        {"g", StorageType::kQ8_0, 16, 512}});
  const auto fused =
      load({part("q", 64, 512), part("k", 32, 512), part("v", 32, 512), part("g", 16, 512)});
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(fused->format(), "Q5_0+Q8_0+Q6_K");
  EXPECT_EQ(fused->outputs(), 144);
  for (const int64_t rows : {1, 20}) {
    const std::vector<float> x = random_floats(3, rows * 512, 1.0f);
    const std::vector<float> y = apply(*fused, x, rows);
    int64_t column = 0;
    for (const auto& [name, outputs] : {std::pair{"q", 64}, {"k", 32}, {"v", 32}, {"g", 16}}) {
      const auto single = load({part(name, outputs, 512)});
      const std::vector<float> wanted = apply(*single, x, rows);
      for (int64_t m = 0; m < rows; ++m) {
        expect_same_bits(std::span(y).subspan(m * 144 + column, outputs),
                         std::span(wanted).subspan(m * outputs, outputs), name);
      }
      column += outputs;
    }
  }
}

// One part that is not made of integers keeps all of them as rows, which round nothing.
TEST_F(FormatsTest, PartsOfBothKindsStayRows) {
  open({{"q", StorageType::kQ5_0, 64, 512}, {"v", StorageType::kF16, 32, 512}});
  const auto fused = load({part("q", 64, 512), part("v", 32, 512)});
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(fused->format(), "Q5_0+F16");
  WeightPart lookup = part("q", 64, 512);
  lookup.use = WeightUse::kLookup;
  const auto rows = load({lookup});
  ASSERT_NE(rows, nullptr);
  const std::vector<float> x = random_floats(3, 512, 1.0f);
  const std::vector<float> y = apply(*fused, x, 1);
  expect_same_bits(std::span(y).first(64), apply(*rows, x, 1), "q");
}

// Zero may change its sign: a code of zero is scale * code + offset in a panel.
TEST_F(FormatsTest, PanelsKeepTheTruthOfTheRows) {
  for (const StorageType type : weight_storage_types()) {
    if (!becomes_panels(type)) continue;
    open({{"a", type, kOutputs, kInputs}});
    WeightPart lookup = part("a", kOutputs, kInputs);
    lookup.use = WeightUse::kLookup;
    const auto rows = load({lookup});
    const auto panels = load({part("a", kOutputs, kInputs)});
    ASSERT_TRUE(rows != nullptr && panels != nullptr);
    const std::vector<float> wanted = truth(*rows);
    const std::vector<float> got = truth(*panels);
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(got[i], wanted[i]) << storage_name(type) << " element " << i;
    }
  }
}

// Head size 8: row 2i + p of a head in the file is row 4p + i of the model.
TEST_F(FormatsTest, RotationPairsAreFoundInPlace) {
  open({{"q", StorageType::kQ4_0, 24, 64}});
  const auto stored = load({part("q", 24, 64)});
  WeightPart pairs = part("q", 24, 64);
  pairs.order = RowOrder::kRopePairs;
  pairs.head_size = 8;
  const auto weight = load({pairs});
  ASSERT_NE(weight, nullptr);
  const std::vector<float> file = truth(*stored);
  const std::vector<float> model = truth(*weight);
  const std::vector<float> x = random_floats(5, 64, 1.0f);
  const std::vector<float> y_file = apply(*stored, x, 1);
  const std::vector<float> y_model = apply(*weight, x, 1);
  constexpr int kFileRow[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  for (int64_t r = 0; r < 24; ++r) {
    const int64_t from = r / 8 * 8 + kFileRow[r % 8];
    expect_same_bits(std::span(model).subspan(r * 64, 64), std::span(file).subspan(from * 64, 64),
                     "row");
    EXPECT_EQ(y_model[r], y_file[from]);
  }
  pairs.head_size = 7;
  EXPECT_NE(refusal({pairs}).find("q.weight has 24 rows in rotation pairs, no whole heads of 7"),
            std::string::npos)
      << refusal({pairs});
}

TEST_F(FormatsTest, SafetensorsNumbersLoad) {
  for (const StorageType type : {StorageType::kF32, StorageType::kF16, StorageType::kBF16}) {
    const std::vector<int64_t> shape = {5, 33};
    const std::vector<std::byte> bytes = random_packed(type, 5 * 33, 9);
    SafetensorsWriter writer;
    writer.add_tensor("a.weight", type, shape, bytes);
    dir_.write("config.json", R"({"model_type": "llama"})");
    dir_.write("model.safetensors", writer.build());
    checkpoint_ = Checkpoint::open(dir_.path().string(), {}).value();
    const auto weight = load({part("a", 5, 33)});
    ASSERT_NE(weight, nullptr);
    const std::vector<float> drawn = random_floats(9, 5 * 33, 1.0f);
    const std::vector<float> w = truth(*weight);
    for (size_t i = 0; i < w.size(); ++i) {
      const float wanted = type == StorageType::kF32   ? drawn[i]
                           : type == StorageType::kF16 ? to_float(to_f16(drawn[i]))
                                                       : to_float(to_bf16(drawn[i]));
      ASSERT_EQ(w[i], wanted);
    }
    std::vector<float> unit(33);
    unit[32] = 1;
    const std::vector<float> y = apply(*weight, unit, 1);
    for (int n = 0; n < 5; ++n) EXPECT_EQ(y[n], w[n * 33 + 32]);
  }
}

TEST_F(FormatsTest, WhatDoesNotFitIsRefusedByName) {
  GgufWriter writer;
  writer.set_string("general.architecture", "llama");
  add(writer, {"a", StorageType::kQ4_0, 6, 64});
  add(writer, {"b", StorageType::kQ4_0, 6, 32});
  const std::vector<int64_t> shape = {6, 64};
  writer.add_tensor("i.weight", StorageType::kI32, shape, std::vector<std::byte>(6 * 64 * 4));
  writer.add_f32("p.packed", {1}, std::vector<float>{1});
  std::vector<std::byte> blocks = random_packed(StorageType::kMXFP4, 6 * 64, 4);
  blocks[3 * 17] = std::byte{255};
  writer.add_tensor("m.weight", StorageType::kMXFP4, shape, blocks);
  open_bytes(writer.build());

  const auto expect = [&](std::vector<WeightPart> parts, const std::string& text) {
    const std::string message = refusal(std::move(parts));
    EXPECT_NE(message.find(text), std::string::npos) << message;
    EXPECT_NE(message.find("model.gguf"), std::string::npos) << message;
  };
  expect({part("a", 7, 64)}, "tensor a.weight has shape [6 64], the model needs [7 64]");
  expect({part("a", 64, 6)}, "tensor a.weight has shape [6 64], the model needs [64 6]");
  expect({part("i", 6, 64)},
         "tensor i.weight is stored as I32, which no weight format here decodes");
  expect({part("a", 6, 64), part("i", 6, 64)}, "i.weight is stored as I32");
  expect({part("none", 6, 64)}, "tensor none.weight is missing");
  expect({part("p", 6, 64)}, "no weight format here stores a linear as p.packed");
  expect({part("m", 6, 64)}, "tensor m.weight has a block scale that is not a number");
  const std::string mixed = refusal({part("a", 6, 64), part("b", 6, 32)});
  EXPECT_NE(mixed.find("a and b cannot be fused: rows of 64 and of 32"), std::string::npos)
      << mixed;
}

TEST(Formats, NamesAreListed) {
  ASSERT_FALSE(weight_formats().empty());
  EXPECT_EQ(weight_formats().front()->name(), "rows");
}

}  // namespace
}  // namespace ashlar
