// Times of the bare device path: steps of a BenchBed, recorded and replayed, and the time of each
// operation within a step that runs directly.
#ifndef ASHLAR_APPS_BENCH_BARE_H_
#define ASHLAR_APPS_BENCH_BARE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "bench_bed.h"
#include "bench_matmuls.h"
#include "bench_read.h"
#include "bench_report.h"
#include "trace/device_op_table.h"

namespace ashlar {

// What all measurements of a run share.
struct BareSetup {
  Model& model;
  Device& device;
  std::vector<MatmulShape> matmuls;
  MatmulBaseline baseline;
  ReadProbe* probe = nullptr;  // on a GPU: keeps it busy while the host runs ahead
  SamplingParams sampling;
};

using OpCalls = std::vector<DeviceOpTable::Call>;

// The operations of one direct run, in order; the time of each is the median of `runs`. The step
// ran before.
Result<OpCalls> median_calls(const BareSetup& setup, BenchBed& bed, const BedStep& step,
                             int64_t runs);

// Adds what attention moves and computes where its own cost does not know the positions, which lie
// on the device. Operation i of that name belongs to layer i.
void add_attention_cost(OpCalls& calls, const BedShape& shape, const StateNeeds& needs);

// Adds up the matmuls of a step.
void add_matmul_work(const BareSetup& setup, const OpCalls& calls, const BedShape& shape,
                     MatmulWork& work);

// The chunks in which a prompt is computed; the last one wants a token.
std::vector<BedShape> prompt_chunks(int64_t tokens, int64_t step_rows);

// The shapes one after the other count as one run: a step, or the chunks of a prompt.
Result<BareRun> measure_bare(const BareSetup& setup, const std::vector<BedShape>& shapes,
                             int64_t runs);

}  // namespace ashlar

#endif  // ASHLAR_APPS_BENCH_BARE_H_
