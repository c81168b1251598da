// Bf16 weights of a GPU, loaded from files of random tensors onto any device, and read back through
// what they answer: unit vectors as x show columns of W, exactly.
#ifndef ASHLAR_TESTING_TILE_WEIGHTS_H_
#define ASHLAR_TESTING_TILE_WEIGHTS_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/synthetic_tensor.h"
#include "formats/format.h"
#include "testing/device_tensor.h"
#include "testing/gguf_writer.h"
#include "testing/random_packed.h"
#include "testing/temp_dir.h"

namespace ashlar {

class TileWeights {
 public:
  struct Tensor {
    std::string prefix;
    StorageType type;
    int64_t rows;
    int64_t columns;
  };

  explicit TileWeights(Device& device) : device_(device), stream_(device.new_stream()) {}

  void open(const std::vector<Tensor>& tensors) {
    GgufWriter writer;
    writer.set_string("general.architecture", "llama");
    for (const Tensor& tensor : tensors) {
      const std::vector<int64_t> shape = {tensor.rows, tensor.columns};
      writer.add_tensor(tensor.prefix + ".weight", tensor.type, shape,
                        random_packed(tensor.type, tensor.rows * tensor.columns, ++seed_));
    }
    open_model(dir_.write("model.gguf", writer.build()));
  }
  void open_model(const std::string& argument) {
    auto opened = Checkpoint::open(argument, {});
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    checkpoint_ = *opened;
  }

  WeightPart part(const std::string& prefix, WeightUse use = WeightUse::kApply) const {
    const TensorGroup group = checkpoint_->group(prefix);
    const StoredTensor& tensor = *group.find("weight");
    return {.tensors = group, .outputs = tensor.rows(), .inputs = tensor.columns(), .use = use};
  }
  std::unique_ptr<Weight> load(std::vector<WeightPart> parts) {
    auto weight = load_weight(parts, device_);
    EXPECT_TRUE(weight.has_value()) << weight.error().message;
    return weight.has_value() ? std::move(*weight) : nullptr;
  }
  // How often generated tensors were made on the host.
  int64_t synthetic_fills() const {
    int64_t fills = 0;
    for (const StoredTensor& tensor : checkpoint_->tensors()) fills += tensor.synthetic->fills();
    return fills;
  }
  std::string refusal(std::vector<WeightPart> parts) {
    auto weight = load_weight(parts, device_);
    return weight.has_value() ? "loaded" : weight.error().message;
  }

  // Row i of y for x = the unit vector of inputs[i].
  std::vector<float> columns(const Weight& weight, const std::vector<int64_t>& inputs, DType type,
                             Epilogue epilogue = {}) {
    const int64_t rows = static_cast<int64_t>(inputs.size());
    std::vector<float> units(static_cast<size_t>(rows * weight.inputs()), 0.0f);
    for (int64_t i = 0; i < rows; ++i) units[i * weight.inputs() + inputs[i]] = 1.0f;
    const bool gated = epilogue.gated != GatedActivation::kNone;
    const DeviceTensor x(*stream_, DType::kBF16, {rows, weight.inputs()}, units);
    const DeviceTensor y(*stream_, type, {rows, gated ? weight.outputs() / 2 : weight.outputs()});
    const int64_t bytes = weight.workspace_bytes(rows);
    Workspace workspace(device_.allocate(static_cast<size_t>(bytes)).value());
    weight.apply(*stream_, workspace, x.view(), y.view(), epilogue);
    std::vector<float> values = y.floats(*stream_);
    EXPECT_EQ(workspace.used_bytes(), 0u);
    EXPECT_LE(static_cast<int64_t>(workspace.peak_bytes()), bytes);
    return values;
  }

  // Every third column of W, for all its rows: [N ceil(K / 3)], as apply() has it.
  std::vector<float> applied(const Weight& weight) {
    std::vector<int64_t> inputs;
    for (int64_t k = 0; k < weight.inputs(); k += 3) inputs.push_back(k);
    const std::vector<float> transposed = columns(weight, inputs, DType::kF32);
    std::vector<float> w;
    for (int64_t n = 0; n < weight.outputs(); ++n) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        w.push_back(transposed[i * static_cast<size_t>(weight.outputs()) + n]);
      }
    }
    return w;
  }
  // The same columns of [N K].
  static std::vector<float> thirds(const std::vector<float>& w, int64_t inputs) {
    std::vector<float> out;
    for (size_t i = 0; i < w.size(); ++i) {
      if (static_cast<int64_t>(i) % inputs % 3 == 0) out.push_back(w[i]);
    }
    return out;
  }

  std::vector<float> gathered(const Weight& weight, const std::vector<int32_t>& rows,
                              float scale = 1.0f) {
    const int64_t count = static_cast<int64_t>(rows.size());
    const DeviceTensor ids(*stream_, {count}, rows);
    const DeviceTensor y(*stream_, DType::kF32, {count, weight.inputs()});
    weight.gather(*stream_, ids.view(), y.view(), scale);
    return y.floats(*stream_);
  }

  // The file's values, rounded once to bf16: what must be found on the device.
  static std::vector<float> rounded_truth(const Weight& weight, int64_t begin, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count * weight.inputs()));
    weight.dequantize(begin, count, values.data());
    for (float& value : values) value = to_float(to_bf16(value));
    return values;
  }
  static std::vector<float> rounded_truth(const Weight& weight) {
    return rounded_truth(weight, 0, weight.outputs());
  }

  const Checkpoint& checkpoint() const { return *checkpoint_; }

 private:
  Device& device_;
  std::unique_ptr<Stream> stream_;
  TempDir dir_;
  std::shared_ptr<Checkpoint> checkpoint_;
  uint64_t seed_ = 0;
};

// The checks that hold on every device. N and K are no multiples of a tile or a block.

inline void check_every_storage(Device& device) {
  TileWeights files(device);
  for (const StorageType type : weight_storage_types()) {
    const std::string name(storage_name(type));
    files.open({{"a", type, 72, 256}});
    const auto weight = files.load({files.part("a", WeightUse::kTied)});
    ASSERT_NE(weight, nullptr);
    EXPECT_EQ(weight->format(), type == StorageType::kBF16 ? name : name + " as BF16");
    EXPECT_EQ(weight->storage_bytes(), 72 * 256 * 2);
    EXPECT_TRUE(files.checkpoint().unclaimed().empty());
    const std::vector<float> wanted = TileWeights::rounded_truth(*weight);
    EXPECT_EQ(files.applied(*weight), TileWeights::thirds(wanted, 256)) << name;
    std::vector<int32_t> rows;
    for (int32_t n = 0; n < 72; ++n) rows.push_back(n);
    EXPECT_EQ(files.gathered(*weight, rows), wanted) << name;
  }
}

inline void check_fused_parts(Device& device) {
  TileWeights files(device);
  files.open({{"q", StorageType::kQ5_0, 64, 160},
              {"k", StorageType::kQ5_0, 32, 160},
              {"v", StorageType::kF16, 40, 160}});
  const auto fused = files.load({files.part("q"), files.part("k"), files.part("v")});
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(fused->format(), "Q5_0+F16 as BF16");
  std::vector<float> wanted;
  for (const char* name : {"q", "k", "v"}) {
    const auto one = files.load({files.part(name)});
    const std::vector<float> values = TileWeights::rounded_truth(*one);
    wanted.insert(wanted.end(), values.begin(), values.end());
  }
  EXPECT_EQ(TileWeights::rounded_truth(*fused), wanted);
  EXPECT_EQ(files.applied(*fused), TileWeights::thirds(wanted, 160));
}

// Head size 8: row 2i + p of a head in the file is row 4p + i of the model.
inline void check_rotation_pairs(Device& device) {
  TileWeights files(device);
  files.open({{"q", StorageType::kQ4_0, 24, 64}});
  const std::vector<float> stored = files.applied(*files.load({files.part("q")}));
  WeightPart pairs = files.part("q");
  pairs.order = RowOrder::kRopePairs;
  pairs.head_size = 8;
  const std::vector<float> moved = files.applied(*files.load({pairs}));
  for (int64_t row = 0; row < 24; ++row) {
    const int64_t from = row / 8 * 8 + 2 * (row % 4) + row % 8 / 4;
    for (int64_t i = 0; i < 22; ++i) ASSERT_EQ(moved[row * 22 + i], stored[from * 22 + i]) << row;
  }
}

inline void check_gates(Device& device) {
  TileWeights files(device);
  files.open({{"gate", StorageType::kBF16, 88, 64}, {"up", StorageType::kBF16, 88, 64}});
  const auto weight = files.load({files.part("gate", WeightUse::kGated), files.part("up")});
  ASSERT_NE(weight, nullptr);
  const std::vector<float> w = TileWeights::rounded_truth(*weight);
  const std::vector<float> y = files.columns(*weight, {0, 17, 63}, DType::kBF16,
                                             {.bias = {}, .gated = GatedActivation::kSilu});
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t k = i == 0 ? 0 : i == 1 ? 17 : 63;
    for (int64_t f = 0; f < 88; ++f) {
      const float wanted = apply_gate(GatedActivation::kSilu, w[f * 64 + k], w[(88 + f) * 64 + k]);
      ASSERT_NEAR(y[i * 88 + f], wanted, std::abs(wanted) * 0x1p-8f) << i << " " << f;
    }
  }
}

// More rows than are staged at once.
inline void check_many_rows(Device& device) {
  constexpr int64_t kRows = 140000;
  TileWeights files(device);
  files.open({{"embed", StorageType::kBF16, kRows, 64}});
  const auto lookup = files.load({files.part("embed", WeightUse::kLookup)});
  const auto weight = files.load({files.part("embed")});
  ASSERT_TRUE(lookup != nullptr && weight != nullptr);
  for (const int32_t row : {0, 65535, 65536, 131071, 131072, static_cast<int32_t>(kRows) - 1}) {
    EXPECT_EQ(files.gathered(*lookup, {row}), TileWeights::rounded_truth(*lookup, row, 1)) << row;
  }
  const std::vector<float> w = TileWeights::rounded_truth(*weight);
  const std::vector<float> y = files.columns(*weight, {5, 63}, DType::kF32);
  for (int64_t n = 0; n < kRows; ++n) {
    ASSERT_EQ(y[n], w[n * 64 + 5]) << n;
    ASSERT_EQ(y[kRows + n], w[n * 64 + 63]) << n;
  }
}

// Generated tensors give their memory back and are generated again for the truth.
// The device makes the rows by itself, fused and for every use; the bits are those of the host,
// which is asked for the truth only afterwards.
inline void check_synthetic(Device& device) {
  TileWeights files(device);
  files.open_model("synthetic:qwen3-0.6b?layers=1&vocab=1000");
  const auto embedding = files.load({files.part("model.embed_tokens", WeightUse::kTied)});
  const std::string layer = "model.layers.0.";
  const auto qkv =
      files.load({files.part(layer + "self_attn.q_proj"), files.part(layer + "self_attn.k_proj"),
                  files.part(layer + "self_attn.v_proj")});
  const auto gates = files.load(
      {files.part(layer + "mlp.gate_proj", WeightUse::kGated), files.part(layer + "mlp.up_proj")});
  ASSERT_TRUE(embedding != nullptr && qkv != nullptr && gates != nullptr);
  EXPECT_EQ(files.synthetic_fills(), 0);

  std::vector<float> wanted = TileWeights::rounded_truth(*embedding, 998, 2);
  for (float& value : wanted) value *= 3.0f;
  EXPECT_EQ(files.gathered(*embedding, {998, 999}, 3.0f), wanted);
  for (const Weight* weight : {embedding.get(), qkv.get()}) {
    const std::vector<int64_t> inputs = {0, 1, 500, weight->inputs() - 1};
    const std::vector<float> truth = TileWeights::rounded_truth(*weight, 0, weight->outputs());
    const std::vector<float> made = files.columns(*weight, inputs, DType::kF32);
    int64_t wrong = 0;
    for (int64_t n = 0; n < weight->outputs(); ++n) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        wrong += made[i * static_cast<size_t>(weight->outputs()) + static_cast<size_t>(n)] !=
                 truth[static_cast<size_t>(n * weight->inputs() + inputs[i])];
      }
    }
    EXPECT_EQ(wrong, 0) << weight->outputs();
  }
  EXPECT_GT(files.synthetic_fills(), 0);
}

inline void check_refusals(Device& device) {
  TileWeights files(device);
  files.open({{"odd", StorageType::kF32, 32, 60},
              {"g", StorageType::kF32, 12, 64},
              {"u", StorageType::kF32, 12, 64}});
  EXPECT_NE(files.refusal({files.part("odd")})
                .find("tensor odd.weight has rows of 60 numbers; a CUDA device takes multiples"),
            std::string::npos);
  EXPECT_NE(files.refusal({files.part("g", WeightUse::kGated), files.part("u")})
                .find("tensor g.weight has 12 gates; a CUDA device takes multiples of 8"),
            std::string::npos);
  EXPECT_EQ(files.refusal({files.part("odd", WeightUse::kLookup)}), "loaded");
}

}  // namespace ashlar

#endif  // ASHLAR_TESTING_TILE_WEIGHTS_H_
