// Buffer: owned bytes on one device, aligned to 64 bytes. Movable, not copyable; frees what it
// owns.
//
// The device that made it hands in how to free it, so tensor/ needs to know no device. Views made
// from a Buffer do not keep it alive.
#ifndef ASHLAR_TENSOR_BUFFER_H_
#define ASHLAR_TENSOR_BUFFER_H_

#include <cstddef>
#include <utility>

#include "tensor/tensor_view.h"

namespace ashlar {

class Buffer {
 public:
  using FreeFunction = void (*)(void* data, size_t bytes);

  Buffer() = default;
  Buffer(void* data, size_t bytes, FreeFunction free_function)
      : data_(data), bytes_(bytes), free_(free_function) {}
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        free_(other.free_) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      data_ = std::exchange(other.data_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
      free_ = other.free_;
    }
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { reset(); }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  // A typed view of the first shape.count() elements from byte_offset on; must fit (CHECK).
  TensorView view(DType type, Shape shape, size_t byte_offset = 0) const {
    CHECK_LE(byte_offset + static_cast<size_t>(shape.count()) * dtype_bytes(type), bytes_);
    return TensorView(static_cast<std::byte*>(data_) + byte_offset, type, shape);
  }

 private:
  void reset() {
    if (data_ != nullptr) free_(data_, bytes_);
    data_ = nullptr;
  }

  void* data_ = nullptr;
  size_t bytes_ = 0;
  FreeFunction free_ = nullptr;
};

}  // namespace ashlar

#endif  // ASHLAR_TENSOR_BUFFER_H_
