// Appends little-endian values to a byte vector. For writers of test files only.
#ifndef ASHLAR_TESTING_BYTE_WRITER_H_
#define ASHLAR_TESTING_BYTE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ashlar {

inline void append_bytes(std::vector<std::byte>& out, const void* data, size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  out.insert(out.end(), bytes, bytes + size);
}

template <class T>
void append_value(std::vector<std::byte>& out, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  append_bytes(out, &value, sizeof(T));
}

inline void append_string(std::vector<std::byte>& out, std::string_view text) {
  append_value(out, static_cast<uint64_t>(text.size()));
  append_bytes(out, text.data(), text.size());
}

inline void pad_to(std::vector<std::byte>& out, size_t alignment) {
  while (out.size() % alignment != 0) out.push_back(std::byte{0});
}

}  // namespace ashlar

#endif  // ASHLAR_TESTING_BYTE_WRITER_H_
