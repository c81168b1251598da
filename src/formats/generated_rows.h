// Rows of generated tensors (checkpoint/synthetic_tensor.h), made on the device that wants them.
#ifndef ASHLAR_FORMATS_GENERATED_ROWS_H_
#define ASHLAR_FORMATS_GENERATED_ROWS_H_

#include <span>

#include "device/device.h"
#include "formats/tile_weight.h"

namespace ashlar {

// Rows [begin, begin + count) of the fused matrix into to [count K], bf16 on the stream's device.
// Every part is generated.
void generate_rows(Stream& stream, std::span<const TileSource> parts, int64_t begin, TensorView to);

}  // namespace ashlar

#endif  // ASHLAR_FORMATS_GENERATED_ROWS_H_
