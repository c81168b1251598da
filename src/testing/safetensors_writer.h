// Builds safetensors files in memory for tests: tiny models, and files that break one rule at a
// time.
//
// Tensors are written in call order without gaps. Broken headers are made with build_with_header().
#ifndef ASHLAR_TESTING_SAFETENSORS_WRITER_H_
#define ASHLAR_TESTING_SAFETENSORS_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/storage_type.h"

namespace ashlar {

class SafetensorsWriter {
 public:
  // The bytes must be the storage's size for the shape (checked).
  void add_tensor(std::string_view name, StorageType type, std::span<const int64_t> shape,
                  std::span<const std::byte> bytes);
  void add_f32(std::string_view name, std::initializer_list<int64_t> shape,
               std::span<const float> values);
  void set_metadata(std::string_view key, std::string_view value);

  std::string header() const;            // the JSON that build() writes, unpadded
  std::vector<std::byte> build() const;  // the header is padded with spaces to a multiple of 8
  // Any header text, with the data of the tensors behind it.
  std::vector<std::byte> build_with_header(std::string_view header) const;

 private:
  struct Tensor {
    std::string name;
    StorageType type;
    std::vector<int64_t> shape;
    size_t begin;
    size_t end;
  };

  std::vector<Tensor> tensors_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  std::vector<std::byte> data_;
};

}  // namespace ashlar

#endif  // ASHLAR_TESTING_SAFETENSORS_WRITER_H_
