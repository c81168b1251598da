// Cuts the rows of a step over the threads of a CPU device, for operations whose rows do not meet.
// Rows are handed out in runs of eight: a row costs a microsecond or less, a hand-out about a tenth
// of one. Which thread takes a row never changes its bits, so nothing here is part of the numeric
// definition.
#ifndef ASHLAR_KERNELS_PARALLEL_ROWS_H_
#define ASHLAR_KERNELS_PARALLEL_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "base/align.h"
#include "device/device.h"

namespace ashlar {

constexpr int64_t kRowsPerPart = 8;

// Calls row(t) once for every t in [0, rows).
template <class Row>
void parallel_rows(Stream& stream, int64_t rows, const Row& row) {
  ThreadPool* pool = stream.device().thread_pool();
  if (pool == nullptr || rows <= kRowsPerPart) {
    for (int64_t t = 0; t < rows; ++t) row(t);
    return;
  }
  pool->run(divide_up(rows, kRowsPerPart), [&](int64_t part, int) {
    const int64_t end = std::min(rows, (part + 1) * kRowsPerPart);
    for (int64_t t = part * kRowsPerPart; t < end; ++t) row(t);
  });
}

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_PARALLEL_ROWS_H_
