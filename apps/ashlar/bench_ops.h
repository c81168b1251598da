// One row of `ashlar bench op`: a step, the operations within it, and each kind of operation alone.
#ifndef ASHLAR_APPS_BENCH_OPS_H_
#define ASHLAR_APPS_BENCH_OPS_H_

#include <string>
#include <vector>

#include "base/error.h"
#include "bench_bare.h"
#include "bench_report.h"

namespace ashlar {

// More rows than this are measured as prefill only, fewer as decode only.
constexpr int64_t kMostDecodeRows = 64;

// A decode step of `rows` sequences, or a chunk of `rows` rows that ends at `context` or at its own
// end, whichever is later.
BedShape op_shape(int64_t rows, int64_t context);

// A name for each call: the operation and, where they are known, the matrix and the window. split:
// and its rounded size.
std::vector<std::string> call_labels(const OpCalls& calls, const BareSetup& setup,
                                     const BedShape& shape, bool split);

Result<OpRow> measure_op_row(const BareSetup& setup, const BedShape& shape, bool split);

}  // namespace ashlar

#endif  // ASHLAR_APPS_BENCH_OPS_H_
