// The safetensors writer. Names and metadata are written between quotes as they are: tests use
// plain ones.
#include "testing/safetensors_writer.h"

#include <fmt/format.h>

#include "base/check.h"
#include "testing/byte_writer.h"

namespace ashlar {

void SafetensorsWriter::add_tensor(std::string_view name, StorageType type,
                                   std::span<const int64_t> shape,
                                   std::span<const std::byte> bytes) {
  CHECK(!storage_info(type).safetensors_name.empty());
  CHECK(tensor_bytes(type, shape) == static_cast<int64_t>(bytes.size()));
  const size_t begin = data_.size();
  append_bytes(data_, bytes.data(), bytes.size());
  tensors_.push_back({std::string(name), type, {shape.begin(), shape.end()}, begin, data_.size()});
}

void SafetensorsWriter::add_f32(std::string_view name, std::initializer_list<int64_t> shape,
                                std::span<const float> values) {
  add_tensor(name, StorageType::kF32, {shape.begin(), shape.size()}, std::as_bytes(values));
}

void SafetensorsWriter::set_metadata(std::string_view key, std::string_view value) {
  metadata_.emplace_back(key, value);
}

std::string SafetensorsWriter::header() const {
  std::vector<std::string> entries;
  if (!metadata_.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : metadata_) {
      pairs.push_back(fmt::format(R"("{}":"{}")", key, value));
    }
    entries.push_back(fmt::format(R"("__metadata__":{{{}}})", fmt::join(pairs, ",")));
  }
  for (const Tensor& tensor : tensors_) {
    entries.push_back(fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                  tensor.name, storage_info(tensor.type).safetensors_name,
                                  fmt::join(tensor.shape, ","), tensor.begin, tensor.end));
  }
  return fmt::format("{{{}}}", fmt::join(entries, ","));
}

std::vector<std::byte> SafetensorsWriter::build() const {
  std::string text = header();
  while (text.size() % 8 != 0) text += ' ';
  return build_with_header(text);
}

std::vector<std::byte> SafetensorsWriter::build_with_header(std::string_view header) const {
  std::vector<std::byte> out;
  append_value(out, static_cast<uint64_t>(header.size()));
  append_bytes(out, header.data(), header.size());
  append_bytes(out, data_.data(), data_.size());
  return out;
}

}  // namespace ashlar
