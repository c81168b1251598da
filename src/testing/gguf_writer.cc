// The GGUF writer: keys are appended as they come, tensors are laid out when the file is built.
#include "testing/gguf_writer.h"

#include "base/check.h"
#include "testing/byte_writer.h"

namespace ashlar {
namespace {

void begin_key(std::vector<std::byte>& out, std::string_view key, GgufType type) {
  append_string(out, key);
  append_value(out, static_cast<uint32_t>(type));
}

void begin_array(std::vector<std::byte>& out, std::string_view key, GgufType element,
                 size_t count) {
  begin_key(out, key, GgufType::kArray);
  append_value(out, static_cast<uint32_t>(element));
  append_value(out, static_cast<uint64_t>(count));
}

}  // namespace

void GgufWriter::set_u32(std::string_view key, uint32_t value) {
  begin_key(keys_, key, GgufType::kU32);
  append_value(keys_, value);
  ++key_count_;
}

void GgufWriter::set_u64(std::string_view key, uint64_t value) {
  begin_key(keys_, key, GgufType::kU64);
  append_value(keys_, value);
  ++key_count_;
}

void GgufWriter::set_i32(std::string_view key, int32_t value) {
  begin_key(keys_, key, GgufType::kI32);
  append_value(keys_, value);
  ++key_count_;
}

void GgufWriter::set_f32(std::string_view key, float value) {
  begin_key(keys_, key, GgufType::kF32);
  append_value(keys_, value);
  ++key_count_;
}

void GgufWriter::set_bool(std::string_view key, bool value) {
  begin_key(keys_, key, GgufType::kBool);
  append_value(keys_, static_cast<uint8_t>(value));
  ++key_count_;
}

void GgufWriter::set_string(std::string_view key, std::string_view value) {
  begin_key(keys_, key, GgufType::kString);
  append_string(keys_, value);
  ++key_count_;
}

void GgufWriter::set_strings(std::string_view key, std::span<const std::string> values) {
  begin_array(keys_, key, GgufType::kString, values.size());
  for (const std::string& value : values) append_string(keys_, value);
  ++key_count_;
}

void GgufWriter::set_i32s(std::string_view key, std::span<const int32_t> values) {
  begin_array(keys_, key, GgufType::kI32, values.size());
  for (const int32_t value : values) append_value(keys_, value);
  ++key_count_;
}

void GgufWriter::set_f32s(std::string_view key, std::span<const float> values) {
  begin_array(keys_, key, GgufType::kF32, values.size());
  for (const float value : values) append_value(keys_, value);
  ++key_count_;
}

void GgufWriter::set_bools(std::string_view key, const std::vector<bool>& values) {
  begin_array(keys_, key, GgufType::kBool, values.size());
  for (const bool value : values) append_value(keys_, static_cast<uint8_t>(value));
  ++key_count_;
}

void GgufWriter::set_raw(std::string_view key, uint32_t type, std::span<const std::byte> bytes) {
  append_string(keys_, key);
  append_value(keys_, type);
  append_bytes(keys_, bytes.data(), bytes.size());
  ++key_count_;
}

void GgufWriter::set_alignment(uint32_t alignment) {
  alignment_ = alignment;
  set_u32("general.alignment", alignment);
}

void GgufWriter::add_tensor(std::string_view name, StorageType type, std::span<const int64_t> shape,
                            std::span<const std::byte> bytes) {
  const StorageInfo& info = storage_info(type);
  CHECK_GE(info.ggml_id, 0);
  CHECK(tensor_bytes(type, shape) == static_cast<int64_t>(bytes.size()));
  Tensor tensor;
  tensor.name = name;
  tensor.stated_type = static_cast<uint32_t>(info.ggml_id);
  tensor.stated_extents.assign(shape.rbegin(), shape.rend());
  tensor.bytes.assign(bytes.begin(), bytes.end());
  tensors_.push_back(std::move(tensor));
}

void GgufWriter::add_f32(std::string_view name, std::initializer_list<int64_t> shape,
                         std::span<const float> values) {
  add_tensor(name, StorageType::kF32, {shape.begin(), shape.size()}, std::as_bytes(values));
}

std::vector<std::byte> GgufWriter::build() const {
  std::vector<std::byte> out;
  append_bytes(out, "GGUF", 4);
  append_value(out, version_);
  append_value(out, static_cast<uint64_t>(tensors_.size()));
  append_value(out, key_count_);
  append_bytes(out, keys_.data(), keys_.size());
  // The alignment of a broken file may be nothing to align by, or 2 GB: then the file is laid out
  // with the default.
  const size_t alignment = alignment_ == 0 || alignment_ > 4096 ? 32 : alignment_;
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    append_string(out, tensor.name);
    append_value(out, static_cast<uint32_t>(tensor.stated_extents.size()));
    for (const uint64_t extent : tensor.stated_extents) append_value(out, extent);
    append_value(out, tensor.stated_type);
    append_value(out, tensor.stated_offset.value_or(offset));
    offset = (offset + tensor.bytes.size() + alignment - 1) / alignment * alignment;
  }
  pad_to(out, alignment);
  for (const Tensor& tensor : tensors_) {
    append_bytes(out, tensor.bytes.data(), tensor.bytes.size());
    pad_to(out, alignment);
  }
  return out;
}

}  // namespace ashlar
