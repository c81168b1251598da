// A copy of bytes that ends right before a page which cannot be read: a parser that reads one byte
// too far crashes the test, in every build and not only under a sanitizer.
#ifndef ASHLAR_TESTING_GUARDED_BYTES_H_
#define ASHLAR_TESTING_GUARDED_BYTES_H_

#include <cstddef>
#include <span>

namespace ashlar {

class GuardedBytes {
 public:
  explicit GuardedBytes(size_t capacity);
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  ~GuardedBytes();

  // Replaces the contents; at most `capacity` bytes. The result is valid until the next call.
  std::span<const std::byte> assign(std::span<const std::byte> bytes);

 private:
  std::byte* pages_;
  size_t readable_bytes_;
  size_t mapped_bytes_;
};

}  // namespace ashlar

#endif  // ASHLAR_TESTING_GUARDED_BYTES_H_
