// The JSON header of a safetensors file as a list of entries. Internal to checkpoint/.
// Sizes and offsets are as stated; safetensors.cc checks them against the file.
#ifndef ASHLAR_CHECKPOINT_SAFETENSORS_HEADER_H_
#define ASHLAR_CHECKPOINT_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ashlar {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> data_offsets;
  bool has_dtype = false;
  bool has_shape = false;
  bool has_data_offsets = false;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // each with all three fields; two offsets
  std::map<std::string, std::string> metadata;
};

// Errors do not name the file; the caller puts it in front.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json);

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_SAFETENSORS_HEADER_H_
