// The GGUF container (versions 2 and 3): its metadata and the places of its tensors, checked and
// left in the mapping.
//
// Everything that a file states is checked here, once: after parse() every string, array and tensor
// lies inside the file, no key or tensor name occurs twice and the tensors do not overlap. Names
// and keys are those of the file; what they mean is in gguf_names.h and gguf_config.h. Refused by
// name: version 1, big-endian files, split files, tensor types without an entry in storage_type.h,
// arrays of arrays.
#ifndef ASHLAR_CHECKPOINT_GGUF_H_
#define ASHLAR_CHECKPOINT_GGUF_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/storage_type.h"

namespace ashlar {

// The numbers are those of the file format.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

std::string_view gguf_type_name(GgufType type);

// One metadata value. Strings are views into the file's bytes: they live as long as the GgufFile
// (or a copy of it). Writers disagree on integer widths, so the accessors ask for a kind, never for
// a width. A value of another kind gives nullopt (or nullptr), never an exception.
class GgufValue {
 public:
  GgufType type() const { return type_; }
  bool is_array() const { return type_ == GgufType::kArray; }
  GgufType element_type() const { return element_type_; }  // of an array; else equal to type()
  size_t size() const { return count_; }                   // elements of an array; 1 for a scalar

  std::optional<int64_t> as_integer()
      const;                               // any integer width; not for u64 values above 2^63 - 1
  std::optional<double> as_float() const;  // f32, f64 or any integer
  std::optional<bool> as_bool() const;
  std::optional<std::string_view> as_string() const;

  const std::vector<std::string_view>* as_strings() const;  // an array of strings, in place
  std::optional<std::vector<int64_t>> as_integers() const;  // an array of any integer width
  std::optional<std::vector<float>> as_floats() const;      // an array of f32, f64 or integers
  std::optional<std::vector<bool>> as_bools() const;

  std::string describe() const;  // for messages and `inspect`: "u32 12", "array of 262144 strings"

 private:
  friend class GgufParser;
  GgufType type_ = GgufType::kU8;
  GgufType element_type_ = GgufType::kU8;
  size_t count_ = 1;
  std::span<const std::byte> raw_;  // numbers: count_ elements, unaligned
  std::string_view string_;         // a scalar string
  std::shared_ptr<const std::vector<std::string_view>> strings_;  // an array of strings
};

struct GgufEntry {
  std::string_view key;
  GgufValue value;
};

struct GgufTensor {
  std::string_view name;  // as in the file: "blk.0.attn_q.weight"
  StorageType type;
  std::vector<int64_t>
      shape;  // outermost first, as everywhere here; the file has the reverse order
  std::span<const std::byte> bytes;
};

class GgufFile {
 public:
  static Result<GgufFile> open(const std::string& path);
  // Reads a file that is already in memory. The bytes must outlive the result. `name` is used in
  // messages.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const { return name_; }
  uint32_t version() const { return version_; }
  size_t alignment() const { return alignment_; }
  size_t data_start() const { return data_start_; }

  // The value of a key, or nullptr. Logarithmic in the number of keys.
  const GgufValue* find(std::string_view key) const;
  std::span<const GgufEntry> entries() const { return entries_; }   // in file order
  std::span<const GgufTensor> tensors() const { return tensors_; }  // in file order
  const MappedFile* mapping() const { return mapping_.get(); }      // null after parse()

  // Once all of it has been read: none of it counts as memory of this process until it is read
  // again. What is given back piece by piece comes back in part, as the system maps 64 KiB around
  // each page that is read: 6 MB of SmolLM2's 98.
  void give_back() const;

 private:
  friend class GgufParser;
  GgufFile() = default;

  std::string name_;
  std::shared_ptr<const MappedFile> mapping_;  // null after parse()
  uint32_t version_ = 0;
  size_t alignment_ = 32;
  size_t data_start_ = 0;
  std::vector<GgufEntry> entries_;
  std::vector<uint32_t> sorted_;  // indices of entries_ by key
  std::vector<GgufTensor> tensors_;
};

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_GGUF_H_
