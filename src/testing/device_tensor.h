// Tensors on any device for tests: filled from host values, read back as bytes or floats. What
// fails ends the test program, since nothing here is what a test is about.
#ifndef ASHLAR_TESTING_DEVICE_TENSOR_H_
#define ASHLAR_TESTING_DEVICE_TENSOR_H_

#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "device/device.h"
#include "tensor/buffer.h"

namespace ashlar {

inline void expect_done(Stream& stream) {
  const Status status = stream.synchronize();
  if (!status) check_failed("stream", 0, "synchronize", status.error().message);
}

class DeviceTensor {
 public:
  // Every byte is `fill`: 0xff is a NaN in each floating type.
  DeviceTensor(Stream& stream, DType type, Shape shape, uint8_t fill = 0xff)
      : DeviceTensor(stream, type, shape,
                     std::vector<std::byte>(static_cast<size_t>(shape.count()) * dtype_bytes(type),
                                            std::byte{fill})) {}
  // Floats are rounded to the type.
  DeviceTensor(Stream& stream, DType type, Shape shape, std::span<const float> values)
      : DeviceTensor(stream, type, shape, rounded(type, values)) {}
  DeviceTensor(Stream& stream, Shape shape, std::span<const int32_t> values)
      : DeviceTensor(stream, DType::kI32, shape, as_bytes(values)) {}

  TensorView view() const { return view_; }

  std::vector<std::byte> bytes(Stream& stream) const {
    std::vector<std::byte> out(bytes_);
    stream.device().copy(stream, out.data(), view_.data(), bytes_);
    expect_done(stream);
    return out;
  }
  std::vector<float> floats(Stream& stream) const {
    const std::vector<std::byte> raw = bytes(stream);
    std::vector<float> out(static_cast<size_t>(view_.shape().count()));
    for (size_t i = 0; i < out.size(); ++i) out[i] = value(raw.data(), i);
    return out;
  }

 private:
  DeviceTensor(Stream& stream, DType type, Shape shape, const std::vector<std::byte>& bytes)
      : bytes_(bytes.size()) {
    Result<Buffer> buffer = stream.device().allocate(bytes_ + 1024);
    if (!buffer) check_failed("tensor", 0, "allocate", buffer.error().message);
    buffer_ = std::move(*buffer);
    view_ = buffer_.view(type, shape);
    stream.device().copy(stream, view_.data(), bytes.data(), bytes_);
    expect_done(stream);
  }

  static std::vector<std::byte> as_bytes(std::span<const int32_t> values) {
    std::vector<std::byte> out(values.size_bytes());
    std::memcpy(out.data(), values.data(), out.size());
    return out;
  }
  static std::vector<std::byte> rounded(DType type, std::span<const float> values) {
    std::vector<std::byte> out(values.size() * dtype_bytes(type));
    for (size_t i = 0; i < values.size(); ++i) {
      if (type == DType::kF32) std::memcpy(out.data() + 4 * i, &values[i], 4);
      const BF16 b = to_bf16(values[i]);
      const F16 h = to_f16(values[i]);
      if (type == DType::kBF16) std::memcpy(out.data() + 2 * i, &b, 2);
      if (type == DType::kF16) std::memcpy(out.data() + 2 * i, &h, 2);
    }
    return out;
  }
  float value(const std::byte* raw, size_t i) const {
    float f = 0;
    BF16 b;
    F16 h;
    switch (view_.dtype()) {
      case DType::kF32:
        std::memcpy(&f, raw + 4 * i, 4);
        return f;
      case DType::kBF16:
        std::memcpy(&b, raw + 2 * i, 2);
        return to_float(b);
      case DType::kF16:
        std::memcpy(&h, raw + 2 * i, 2);
        return to_float(h);
      default:
        check_failed("tensor", 0, "floats", "not a floating type");
    }
  }

  size_t bytes_;
  Buffer buffer_;
  TensorView view_;
};

}  // namespace ashlar

#endif  // ASHLAR_TESTING_DEVICE_TENSOR_H_
