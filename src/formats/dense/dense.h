// Rows of plain numbers, from safetensors and GGUF alike: F32, F16, BF16. Every value is exact in
// f32. K may be any length; the numbers may lie at any alignment.
#ifndef ASHLAR_FORMATS_DENSE_DENSE_H_
#define ASHLAR_FORMATS_DENSE_DENSE_H_

#include "kernels/packed/packed_rows.h"

namespace ashlar {

extern const RowCodec f32_rows;
extern const RowCodec f16_rows;
extern const RowCodec bf16_rows;

void decode_f32(const std::byte* values, int64_t count, float* out);
void decode_f16_cpu(const std::byte* values, int64_t count, float* out);
void decode_bf16_cpu(const std::byte* values, int64_t count, float* out);

}  // namespace ashlar

#endif  // ASHLAR_FORMATS_DENSE_DENSE_H_
