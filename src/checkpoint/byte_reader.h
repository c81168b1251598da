// A cursor over bytes that cannot run past their end. Reads are little-endian and may be unaligned.
// It reports success as a bool, so that reading 262,144 strings builds no error values; the caller
// words the error.
#ifndef ASHLAR_CHECKPOINT_BYTE_READER_H_
#define ASHLAR_CHECKPOINT_BYTE_READER_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace ashlar {

static_assert(std::endian::native == std::endian::little, "files are little-endian, and so are we");

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }

  template <class T>
  [[nodiscard]] bool read(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (remaining() < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return true;
  }

  [[nodiscard]] bool take(uint64_t count, std::span<const std::byte>& out) {
    if (count > remaining()) return false;
    out = bytes_.subspan(position_, static_cast<size_t>(count));
    position_ += static_cast<size_t>(count);
    return true;
  }

  // u64 length, then that many bytes. On failure the position may be anywhere before the end.
  [[nodiscard]] bool read_string(std::string_view& out) {
    uint64_t length = 0;
    std::span<const std::byte> bytes;
    if (!read(length) || !take(length, bytes)) return false;
    out = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_BYTE_READER_H_
