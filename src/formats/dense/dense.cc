// The truth of plain numbers, and their codecs.
// Signed zeros, subnormals and infinities survive; a NaN stays a NaN.
#include "formats/dense/dense.h"

#include <cstring>

#include "tensor/dtype.h"

namespace ashlar {

namespace {

template <class T>
void decode_16_bits(const std::byte* values, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, values + i * 2, 2);
    out[i] = to_float(value);
  }
}

}  // namespace

void decode_f32(const std::byte* values, int64_t count, float* out) {
  std::memcpy(out, values, static_cast<size_t>(count) * sizeof(float));
}

constinit const RowCodec f32_rows = {"F32", 1, 4, decode_f32, decode_f32};
constinit const RowCodec f16_rows = {"F16", 1, 2, decode_16_bits<F16>, decode_f16_cpu};
constinit const RowCodec bf16_rows = {"BF16", 1, 2, decode_16_bits<BF16>, decode_bf16_cpu};

}  // namespace ashlar
