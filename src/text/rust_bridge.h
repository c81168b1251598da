// The C++ side of the C interface in rust/ashlar_text.h: owned buffers, borrowed bytes, statuses as
// errors. For the .cc files of this folder only.
#ifndef ASHLAR_TEXT_RUST_BRIDGE_H_
#define ASHLAR_TEXT_RUST_BRIDGE_H_

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "text/rust/ashlar_text.h"

namespace ashlar {

inline AshlarBytes rust_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// A buffer that the library fills and this object releases.
class RustBuffer {
 public:
  RustBuffer() = default;
  RustBuffer(const RustBuffer&) = delete;
  RustBuffer& operator=(const RustBuffer&) = delete;
  ~RustBuffer() { ashlar_buffer_free(&buffer_); }

  AshlarBuffer* out() { return &buffer_; }

  std::string text() const {
    if (buffer_.size == 0) return {};
    return std::string(reinterpret_cast<const char*>(buffer_.data), buffer_.size);
  }

  template <class T>
  std::vector<T> array() const {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> values(buffer_.size / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), buffer_.data, values.size() * sizeof(T));
    return values;
  }

 private:
  AshlarBuffer buffer_ = {nullptr, 0, 0};
};

inline Status rust_status(AshlarStatus status, const RustBuffer& error) {
  ErrorCode code = ErrorCode::kInternal;
  switch (status) {
    case ASHLAR_OK:
      return {};
    case ASHLAR_INVALID_ARGUMENT:
      code = ErrorCode::kInvalidArgument;
      break;
    case ASHLAR_CORRUPT:
      code = ErrorCode::kCorrupt;
      break;
    case ASHLAR_UNSUPPORTED:
      code = ErrorCode::kUnsupported;
      break;
    case ASHLAR_RESOURCE_EXHAUSTED:
      code = ErrorCode::kResourceExhausted;
      break;
    case ASHLAR_INTERNAL:
      break;
  }
  return tl::unexpected<Error>(Error{code, error.text()});
}

}  // namespace ashlar

#endif  // ASHLAR_TEXT_RUST_BRIDGE_H_
