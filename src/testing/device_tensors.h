// Tensors of a test in the memory of a device: made from values on the host, read back as such.
// Everything lives as long as the object; copies are synchronous, which is slow and simple.
#ifndef ASHLAR_TESTING_DEVICE_TENSORS_H_
#define ASHLAR_TESTING_DEVICE_TENSORS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/check.h"
#include "device/device.h"
#include "tensor/buffer.h"

namespace ashlar {

class DeviceTensors {
 public:
  explicit DeviceTensors(Stream& stream) : stream_(stream) {}

  // Every byte is `fill`: 0xff is a NaN in every floating-point type.
  TensorView make(DType type, Shape shape, uint8_t fill = 0xff) {
    const size_t bytes = static_cast<size_t>(shape.count()) * dtype_bytes(type);
    const std::vector<uint8_t> values(bytes, fill);
    return put(values.data(), type, shape);
  }
  template <class T>
  TensorView from(const std::vector<T>& values, Shape shape) {
    CHECK_EQ(static_cast<int64_t>(values.size()), shape.count());
    return put(values.data(), DTypeOf<T>::value, shape);
  }
  template <class T>
  TensorView from(const std::vector<T>& values) {
    return from(values, {static_cast<int64_t>(values.size())});
  }
  template <class T>
  std::vector<T> read(const TensorView& view) {
    CHECK(view.contiguous());
    std::vector<T> values(static_cast<size_t>(view.shape().count()));
    stream_.device().copy(stream_, values.data(), view.as<T>(), values.size() * sizeof(T));
    const Status status = stream_.synchronize();
    EXPECT_TRUE(status) << status.error().message;
    return values;
  }

 private:
  TensorView put(const void* values, DType type, Shape shape) {
    const size_t bytes = static_cast<size_t>(shape.count()) * dtype_bytes(type);
    Buffer buffer = stream_.device().allocate(std::max<size_t>(bytes, 64)).value();
    if (bytes > 0) stream_.device().copy(stream_, buffer.data(), values, bytes);
    buffers_.push_back(std::move(buffer));
    return buffers_.back().view(type, shape);
  }

  Stream& stream_;
  std::vector<Buffer> buffers_;
};

inline std::vector<BF16> rounded_to_bf16(const std::vector<float>& values) {
  std::vector<BF16> rounded;
  for (const float value : values) rounded.push_back(to_bf16(value));
  return rounded;
}

template <class T>
std::vector<float> widened(const std::vector<T>& values) {
  std::vector<float> wide;
  for (const T value : values) wide.push_back(to_float(value));
  return wide;
}

}  // namespace ashlar

#endif  // ASHLAR_TESTING_DEVICE_TENSORS_H_
