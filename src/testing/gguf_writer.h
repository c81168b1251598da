// Builds GGUF files in memory for tests: tiny models, and files that break one rule at a time.
//
// The writer lays tensors out as the format asks. Tests that need a lying file change bytes of the
// result, or use the override_* calls. It knows nothing about model families: names and keys are
// written as given.
#ifndef ASHLAR_TESTING_GGUF_WRITER_H_
#define ASHLAR_TESTING_GGUF_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf.h"

namespace ashlar {

class GgufWriter {
 public:
  explicit GgufWriter(uint32_t version = 3) : version_(version) {}

  // Metadata, in call order. The name says the stored type.
  void set_u32(std::string_view key, uint32_t value);
  void set_u64(std::string_view key, uint64_t value);
  void set_i32(std::string_view key, int32_t value);
  void set_f32(std::string_view key, float value);
  void set_bool(std::string_view key, bool value);
  void set_string(std::string_view key, std::string_view value);
  void set_strings(std::string_view key, std::span<const std::string> values);
  void set_i32s(std::string_view key, std::span<const int32_t> values);
  void set_f32s(std::string_view key, std::span<const float> values);
  void set_bools(std::string_view key, const std::vector<bool>& values);
  // Any value: its type and its bytes exactly as they stand in the file.
  void set_raw(std::string_view key, uint32_t type, std::span<const std::byte> bytes);
  void set_alignment(uint32_t alignment);  // also writes general.alignment

  // shape is outermost first, [N K]. The bytes must be the storage's size for that shape (checked).
  void add_tensor(std::string_view name, StorageType type, std::span<const int64_t> shape,
                  std::span<const std::byte> bytes);
  void add_f32(std::string_view name, std::initializer_list<int64_t> shape,
               std::span<const float> values);

  // For broken files: what the last added tensor's entry states instead of the truth.
  void override_last_offset(uint64_t offset) { tensors_.back().stated_offset = offset; }
  void override_last_type(uint32_t ggml_id) { tensors_.back().stated_type = ggml_id; }
  // Innermost first, as the file has them.
  void override_last_extents(std::vector<uint64_t> extents) {
    tensors_.back().stated_extents = std::move(extents);
  }

  std::vector<std::byte> build() const;

 private:
  struct Tensor {
    std::string name;
    uint32_t stated_type = 0;
    std::vector<uint64_t> stated_extents;
    std::optional<uint64_t> stated_offset;
    std::vector<std::byte> bytes;
  };

  uint32_t version_;
  uint32_t alignment_ = 32;
  uint64_t key_count_ = 0;
  std::vector<std::byte> keys_;
  std::vector<Tensor> tensors_;
};

}  // namespace ashlar

#endif  // ASHLAR_TESTING_GGUF_WRITER_H_
