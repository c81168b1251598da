// Each part gives the run of its rows that falls into the wanted ones.
#include "formats/generated_rows.h"

#include <algorithm>

#include "checkpoint/synthetic_tensor.h"
#include "kernels/fill_synthetic/fill_synthetic.h"

namespace ashlar {

void generate_rows(Stream& stream, std::span<const TileSource> parts, int64_t begin,
                   TensorView to) {
  const int64_t end = begin + to.dim(0);
  int64_t part_begin = 0;
  for (const TileSource& part : parts) {
    const int64_t from = std::max(begin, part_begin);
    const int64_t count = std::min(end, part_begin + part.rows.rows) - from;
    if (count > 0) {
      fill_synthetic(stream, {.values = part.tensor->synthetic->values(),
                              .first = (from - part_begin) * to.dim(1),
                              .y = to.slice_rows(from - begin, count)});
    }
    part_begin += part.rows.rows;
  }
}

}  // namespace ashlar
