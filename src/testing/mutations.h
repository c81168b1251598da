// Systematic damage to a small file: every truncation, and every byte set to several other values.
// For parsers of untrusted files. What the parser makes of each damaged file is the caller's check.
#ifndef ASHLAR_TESTING_MUTATIONS_H_
#define ASHLAR_TESTING_MUTATIONS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "testing/guarded_bytes.h"

namespace ashlar {

// Calls visit(bytes, length) for every shorter prefix of the file.
template <class Visit>
void for_each_truncation(std::span<const std::byte> file, Visit&& visit) {
  GuardedBytes guarded(file.size());
  for (size_t length = 0; length < file.size(); ++length) {
    visit(guarded.assign(file.first(length)), length);
  }
}

// Calls visit(bytes, position) for each byte of the first `limit` replaced by several values, one
// at a time.
template <class Visit>
void for_each_changed_byte(std::span<const std::byte> file, size_t limit, Visit&& visit) {
  GuardedBytes guarded(file.size());
  std::vector<std::byte> copy(file.begin(), file.end());
  for (size_t at = 0; at < limit && at < file.size(); ++at) {
    const std::byte original = copy[at];
    const auto value = static_cast<unsigned>(original);
    for (const unsigned changed :
         {value ^ 1, value ^ 0x80, value + 1, value - 1, value + 8, 0u, 0x20u, 0x7fu, 0xffu}) {
      if (static_cast<std::byte>(changed) == original) continue;
      copy[at] = static_cast<std::byte>(changed);
      visit(guarded.assign(copy), at);
    }
    copy[at] = original;
  }
}

}  // namespace ashlar

#endif  // ASHLAR_TESTING_MUTATIONS_H_
