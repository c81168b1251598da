// Loads linears, norms, embedding and head by name. Every refusal names the tensor, what was
// expected and what is there.
#include "nn/model_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "checkpoint/tensor_reader.h"
#include "kernels/attention/attention_scratch.h"

namespace ashlar {

namespace {

float number_at(const StoredTensor& tensor, const std::byte* data, int64_t i) {
  const auto read = [&](auto value) {
    std::memcpy(&value, data + static_cast<size_t>(i) * sizeof(value), sizeof(value));
    return value;
  };
  switch (tensor.type) {
    case StorageType::kF16:
      return to_float(read(F16{}));
    case StorageType::kBF16:
      return to_float(read(BF16{}));
    default:
      return read(0.0f);
  }
}

// Moves adjacent rotation pairs, the order of some files, to half split: the same move that a
// weight makes of its rows.
void split_pairs(float* values, int64_t count, int64_t head_size) {
  std::vector<float> head(head_size);
  for (int64_t begin = 0; begin < count; begin += head_size) {
    for (int64_t i = 0; i < head_size / 2; ++i) {
      for (int64_t p = 0; p < 2; ++p) head[p * head_size / 2 + i] = values[begin + 2 * i + p];
    }
    std::copy(head.begin(), head.end(), values + begin);
  }
}

bool same_bytes(const StoredTensor& a, const StoredTensor& b) {
  return a.type == b.type && a.shape == b.shape && std::memcmp(a.data(), b.data(), a.bytes) == 0;
}

}  // namespace

Result<std::shared_ptr<const Weight>> ModelBuilder::load(std::span<const MatrixSpec> parts,
                                                         int64_t inputs, WeightUse use) {
  std::vector<WeightPart> weight_parts;
  for (const MatrixSpec& part : parts) {
    const TensorGroup group = checkpoint_.group(part.name);
    if (group.empty()) {
      return fail(ErrorCode::kNotFound, "{}: the tensor {}.weight is missing", checkpoint_.path(),
                  part.name);
    }
    const bool pairs = part.rotated_head > 0 && checkpoint_.qk_rows_interleaved();
    weight_parts.push_back({.tensors = group,
                            .outputs = part.outputs,
                            .inputs = inputs,
                            .order = pairs ? RowOrder::kRopePairs : RowOrder::kPlain,
                            .head_size = part.rotated_head,
                            .use = use});
  }
  ASHLAR_ASSIGN(std::unique_ptr<Weight> weight, load_weight(weight_parts, device_, &loader_));
  return std::shared_ptr<const Weight>(std::move(weight));
}

Result<std::vector<float>> ModelBuilder::vector(const std::string& name, int64_t size) {
  const StoredTensor* tensor = checkpoint_.claim(name);
  if (tensor == nullptr) {
    return fail(ErrorCode::kNotFound, "{}: the tensor {} is missing", checkpoint_.path(), name);
  }
  if (tensor->shape != std::vector<int64_t>{size}) {
    return fail(ErrorCode::kCorrupt,
                "{}: the tensor {} has shape [{}], but the configuration says [{}]", tensor->file,
                name, fmt::join(tensor->shape, " "), size);
  }
  if (tensor->type != StorageType::kF32 && tensor->type != StorageType::kF16 &&
      tensor->type != StorageType::kBF16) {
    return fail(ErrorCode::kUnsupported,
                "{}: the tensor {} is stored as {}; F32, F16 or BF16 are read", tensor->file, name,
                storage_name(tensor->type));
  }
  std::vector<float> values(static_cast<size_t>(size));
  std::vector<std::byte> bytes(tensor->bytes);
  TensorReader reader;
  ASHLAR_TRY(reader.read(*tensor, 0, bytes));
  for (int64_t i = 0; i < size; ++i) values[i] = number_at(*tensor, bytes.data(), i);
  return values;
}

Result<std::vector<float>> ModelBuilder::optional_vector(const std::string& name, int64_t size) {
  if (checkpoint_.find(name) == nullptr) return std::vector<float>();
  return vector(name, size);
}

Result<Buffer> ModelBuilder::upload(std::span<const float> values) {
  ASHLAR_ASSIGN(Buffer buffer, device_.allocate(values.size_bytes()));
  const std::unique_ptr<Stream> stream = device_.new_stream();
  device_.copy(*stream, buffer.data(), values.data(), values.size_bytes());
  ASHLAR_TRY(stream->synchronize());
  return buffer;
}

Result<Linear> ModelBuilder::linear(std::vector<MatrixSpec> parts, int64_t inputs, bool bias,
                                    WeightUse use) {
  ASHLAR_ASSIGN(std::shared_ptr<const Weight> weight, load(parts, inputs, use));
  count(*weight);
  Buffer bias_buffer;
  if (bias) {
    std::vector<float> values;
    for (const MatrixSpec& part : parts) {
      ASHLAR_ASSIGN(std::vector<float> one, vector(part.name + ".bias", part.outputs));
      if (part.rotated_head > 0 && checkpoint_.qk_rows_interleaved()) {
        split_pairs(one.data(), part.outputs, part.rotated_head);
      }
      values.insert(values.end(), one.begin(), one.end());
    }
    ASHLAR_ASSIGN(bias_buffer, upload(values));
  }
  return Linear(std::move(weight), std::move(bias_buffer));
}

Result<Norm> ModelBuilder::norm(const std::string& name, int64_t size, double eps,
                                NormWeight meaning) {
  ASHLAR_ASSIGN(std::vector<float> weight, vector(name + ".weight", size));
  if (meaning == NormWeight::kPlusOne && !checkpoint_.norm_weights_include_one()) {
    for (float& w : weight) w = 1.0f + w;
  }
  ASHLAR_ASSIGN(Buffer buffer, upload(weight));
  return Norm(std::move(buffer), size, eps, activation_type(device_.backend()));
}

Result<Embedding> ModelBuilder::embedding(const std::string& name, int64_t vocabulary,
                                          int64_t hidden, double scale, bool tied) {
  const MatrixSpec spec = {.name = name, .outputs = vocabulary};
  ASHLAR_ASSIGN(std::shared_ptr<const Weight> weight,
                load({&spec, 1}, hidden, tied ? WeightUse::kTied : WeightUse::kLookup));
  return Embedding(std::move(weight), static_cast<float>(scale));
}

Result<Head> ModelBuilder::head(const std::string& name, const Embedding& embedding, bool tied,
                                int64_t decodable) {
  const int64_t vocabulary = embedding.weight()->outputs();
  std::shared_ptr<const Weight> weight = embedding.weight();
  if (!tied) {
    const MatrixSpec spec = {.name = name, .outputs = vocabulary};
    ASHLAR_ASSIGN(weight, load({&spec, 1}, embedding.weight()->inputs(), WeightUse::kApply));
  } else if (const StoredTensor* again = checkpoint_.find(name + ".weight")) {
    const StoredTensor* original = checkpoint_.find("model.embed_tokens.weight");
    if (original == nullptr || !same_bytes(*again, *original)) {
      return fail(
          ErrorCode::kUnsupported,
          "{}: {} says tie_word_embeddings, but the tensor {}.weight differs from the embedding",
          again->file, checkpoint_.config_name(), name);
    }
    checkpoint_.claim(name + ".weight");
  }
  count(*weight);
  return Head(std::move(weight), decodable < vocabulary ? decodable : 0);
}

int ModelBuilder::add_paged(int64_t kv_heads, int64_t head_size, int64_t window) {
  paged_shapes_.push_back({.type = kv_type_, .heads = kv_heads, .head_size = head_size});
  return state_needs_.add_paged(
      {.bytes_per_position = 2 * kv_heads * head_size * static_cast<int64_t>(dtype_bytes(kv_type_)),
       .window = window});
}

Status ModelBuilder::finish(const LoadWish& wish) {
  ASHLAR_TRY(checkpoint_.refuse_unclaimed());
  return wish.values ? loader_.run(wish.observer) : Status();
}

int64_t ModelBuilder::most_sequences() const { return attention_most_sequences(device_.backend()); }

void ModelBuilder::count(const Weight& weight) {
  weight_bytes_ += weight.storage_bytes();
  bytes_by_format_[weight.format()] += weight.storage_bytes();
}

std::string ModelBuilder::weight_formats() const {
  std::vector<std::pair<int64_t, std::string>> formats;
  for (const auto& [name, bytes] : bytes_by_format_) formats.emplace_back(bytes, name);
  std::sort(formats.rbegin(), formats.rend());
  std::vector<std::string> parts;
  for (const auto& [bytes, name] : formats) {
    parts.push_back(fmt::format("{} {:.0f} %", name,
                                100.0 * static_cast<double>(bytes) /
                                    static_cast<double>(std::max<int64_t>(1, weight_bytes_))));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace ashlar
