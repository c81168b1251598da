// One safetensors file: the names, types, shapes and places of its tensors, checked and left in the
// mapping.
//
//   u64 header length | JSON header {"name": {"dtype", "shape", "data_offsets": [begin, end]},
//   "__metadata__": {...}} | data
//
// As in the reference implementation, tensors must fill the data part without gap or overlap, and
// their byte counts must follow from type and shape. Types without an entry in storage_type.h are
// refused with the tensor's name. Shards are put together in hf_folder.cc.
#ifndef ASHLAR_CHECKPOINT_SAFETENSORS_H_
#define ASHLAR_CHECKPOINT_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/storage_type.h"

namespace ashlar {

struct SafetensorsTensor {
  std::string name;
  StorageType type = StorageType::kF32;
  std::vector<int64_t> shape;        // outermost first; empty for one element
  std::span<const std::byte> bytes;  // aligned only where the writer aligned it
};

class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);
  // Reads a file that is already in memory. The bytes must outlive the result. `name` is used in
  // messages.
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const { return name_; }
  std::span<const SafetensorsTensor> tensors() const { return tensors_; }  // in order of their data
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const MappedFile* mapping() const { return mapping_.get(); }  // null after parse()

 private:
  std::string name_;
  std::shared_ptr<const MappedFile> mapping_;  // null after parse()
  std::vector<SafetensorsTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_SAFETENSORS_H_
