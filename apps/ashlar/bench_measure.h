// The measurements of `ashlar bench`: they run a session's engine, step by step on this thread, and
// take the time of the steps that are what they claim to be; and the same steps on the device
// alone.
//
// Prompts are random and all different, so nothing can be shared between sequences. The sampler
// takes the likeliest token. Nothing is written here.
#ifndef ASHLAR_APPS_BENCH_MEASURE_H_
#define ASHLAR_APPS_BENCH_MEASURE_H_

#include <span>
#include <vector>

#include "base/error.h"
#include "bench_bare.h"
#include "bench_options.h"
#include "bench_report.h"
#include "model_session.h"

namespace ashlar {

// Positions that a sequence needs for measuring `counts` (sequences, lengths or rows, by kind).
int64_t bench_context(BenchKind kind, const BenchOptions& options, std::span<const int64_t> counts);

// The engine that decode or prefill needs: no more pages than are used.
Result<EngineOptions> bench_engine_options(BenchKind kind, const BenchOptions& options,
                                           std::span<const int64_t> counts);

// Through the session's engine; without one, rows without times. The first row has run once before
// it is counted, so that it does not pay for the first touch of the weights.
Result<std::vector<DecodeRow>> measure_decode(ModelSession& session, const BenchOptions& options,
                                              std::span<const int64_t> counts);
Result<std::vector<PrefillRow>> measure_prefill(ModelSession& session, const BenchOptions& options,
                                                std::span<const int64_t> counts);
// The same on the device alone.
Status add_bare(const BareSetup& setup, const BenchOptions& options, std::vector<DecodeRow>& rows);
Status add_bare(const BareSetup& setup, const BenchOptions& options, std::vector<PrefillRow>& rows);
// Each number of rows at each context; needs no engine.
Result<std::vector<OpRow>> measure_ops(const BareSetup& setup, const BenchOptions& options,
                                       std::span<const int64_t> counts,
                                       std::span<const int64_t> contexts);

}  // namespace ashlar

#endif  // ASHLAR_APPS_BENCH_MEASURE_H_
