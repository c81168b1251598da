// How an input is cut into parts.
#include "fuzz/targets.h"

#include <algorithm>

namespace ashlar {

std::vector<std::string_view> fuzz_parts(std::string_view input, size_t count) {
  std::vector<std::string_view> parts;
  while (parts.size() + 1 < count) {
    const size_t end = std::min(input.find(kFuzzSeparator), input.size());
    parts.push_back(input.substr(0, end));
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  parts.push_back(input);
  return parts;
}

std::span<const std::byte> fuzz_bytes(std::string_view input) {
  return {reinterpret_cast<const std::byte*>(input.data()), input.size()};
}

}  // namespace ashlar
