// The measurements of `ashlar bench`: they run a session's engine, step by step on this thread, and
// take the time of the steps that are what they claim to be.
//
// Prompts are random and all different, so nothing can be shared between sequences. The sampler
// takes the likeliest token. Nothing is written here.
#ifndef ASHLAR_APPS_BENCH_MEASURE_H_
#define ASHLAR_APPS_BENCH_MEASURE_H_

#include <span>
#include <vector>

#include "base/error.h"
#include "bench_options.h"
#include "bench_report.h"
#include "model_session.h"

namespace ashlar {

// More rows than this are measured as prefill only.
constexpr int64_t kMostDecodeRows = 64;

// The engine that measuring `counts` (sequences, lengths or rows, by kind) needs: no more pages
// than are used.
Result<EngineOptions> bench_engine_options(BenchKind kind, const BenchOptions& options,
                                           std::span<const int64_t> counts);

// Each runs once without counting first, so that no row pays for the first touch of the weights.
Result<std::vector<DecodeRow>> measure_decode(ModelSession& session, const BenchOptions& options,
                                              std::span<const int64_t> counts);
Result<std::vector<PrefillRow>> measure_prefill(ModelSession& session, const BenchOptions& options,
                                                std::span<const int64_t> counts);
Result<std::vector<OpRow>> measure_ops(ModelSession& session, const BenchOptions& options,
                                       std::span<const int64_t> counts);

}  // namespace ashlar

#endif  // ASHLAR_APPS_BENCH_MEASURE_H_
