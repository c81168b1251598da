// Reads and checks a reference file. Numbers are copied out, since a safetensors file aligns
// nothing; the ids of the top tokens, the largest part, stay in the mapping.
#include "parity/reference.h"

#include <algorithm>
#include <cstring>

namespace ashlar {

namespace {

Result<const SafetensorsTensor*> find(const SafetensorsFile& file, std::string_view name,
                                      StorageType type, size_t rank) {
  for (const SafetensorsTensor& tensor : file.tensors()) {
    if (tensor.name != name) continue;
    if (tensor.type != type || tensor.shape.size() != rank) {
      return fail(ErrorCode::kCorrupt, "{}: tensor {} is not {} of rank {}", file.name(), name,
                  storage_name(type), rank);
    }
    return &tensor;
  }
  return fail(ErrorCode::kNotFound, "{}: tensor {} is missing; is this a reference file?",
              file.name(), name);
}

template <class T>
Result<std::vector<T>> numbers(const SafetensorsFile& file, std::string_view name, size_t rank,
                               StorageType type) {
  ASHLAR_ASSIGN(const SafetensorsTensor* tensor, find(file, name, type, rank));
  std::vector<T> values(tensor->bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  return values;
}

}  // namespace

Result<ReferenceFile> ReferenceFile::open(const std::string& path) {
  ASHLAR_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path));
  ReferenceFile reference(std::move(file));
  ASHLAR_TRY(reference.read());
  return reference;
}

Status ReferenceFile::read() {
  ASHLAR_ASSIGN(tokens_, numbers<int32_t>(file_, "token_ids", 1, StorageType::kI32));
  ASHLAR_ASSIGN(starts_, numbers<int32_t>(file_, "text_starts", 1, StorageType::kI32));
  ASHLAR_ASSIGN(top_logprobs_, numbers<float>(file_, "top_logprobs", 2, StorageType::kF32));
  ASHLAR_ASSIGN(rest_logprob_, numbers<float>(file_, "rest_logprob", 1, StorageType::kF32));
  ASHLAR_ASSIGN(margin_, numbers<float>(file_, "margin", 1, StorageType::kF32));
  ASHLAR_ASSIGN(noise_, numbers<float>(file_, "bf16_noise", 1, StorageType::kF32));
  ASHLAR_ASSIGN(hidden_rows_, numbers<int32_t>(file_, "hidden_rows", 1, StorageType::kI32));
  ASHLAR_ASSIGN(hidden_, numbers<float>(file_, "hidden", 2, StorageType::kF32));
  ASHLAR_ASSIGN(const SafetensorsTensor* ids, find(file_, "top_ids", StorageType::kU8, 3));
  const size_t count = tokens_.size();
  top_ids_ = ids->bytes;
  top_ = ids->shape[1];
  id_bytes_ = ids->shape[2];
  ids_.resize(static_cast<size_t>(top_));
  const bool sizes = count > 0 && ids->shape[0] == positions() && top_ > 0 && id_bytes_ > 0 &&
                     id_bytes_ <= 3 && top_logprobs_.size() == count * static_cast<size_t>(top_) &&
                     rest_logprob_.size() == count && margin_.size() == count &&
                     noise_.size() == count &&
                     hidden_.size() % std::max<size_t>(hidden_rows_.size(), 1) == 0;
  const bool starts = starts_.size() >= 2 && starts_.front() == 0 &&
                      starts_.back() == positions() &&
                      std::is_sorted(starts_.begin(), starts_.end());
  const bool rows = std::all_of(hidden_rows_.begin(), hidden_rows_.end(),
                                [&](int32_t row) { return row >= 0 && row < positions(); });
  if (!sizes || !starts || !rows) {
    return fail(ErrorCode::kCorrupt, "{}: the sizes of its tensors contradict each other",
                file_.name());
  }
  return {};
}

std::span<const int32_t> ReferenceFile::tokens(int64_t text) const {
  const auto begin = static_cast<size_t>(starts_[static_cast<size_t>(text)]);
  const auto end = static_cast<size_t>(starts_[static_cast<size_t>(text) + 1]);
  return std::span(tokens_).subspan(begin, end - begin);
}

TopReference ReferenceFile::top(int64_t position) {
  const auto p = static_cast<size_t>(position);
  const auto* bytes =
      reinterpret_cast<const uint8_t*>(top_ids_.data()) + position * top_ * id_bytes_;
  for (int32_t& id : ids_) {
    id = 0;
    for (int64_t b = 0; b < id_bytes_; ++b) id |= static_cast<int32_t>(*bytes++) << (8 * b);
  }
  const auto width = static_cast<size_t>(top_);
  return {ids_, std::span(top_logprobs_).subspan(p * width, width), rest_logprob_[p], margin_[p],
          noise_[p]};
}

std::span<const float> ReferenceFile::hidden(int64_t index) const {
  const size_t width = hidden_.size() / hidden_rows_.size();
  return std::span(hidden_).subspan(static_cast<size_t>(index) * width, width);
}

}  // namespace ashlar
