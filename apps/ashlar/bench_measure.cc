// What counts as a row: decode steps with all sequences and no prompt in them, and whole prefills
// from submission to the first token; beside both, the same work on the device alone.
#include "bench_measure.h"

#include <algorithm>

#include "base/align.h"
#include "bench_crowd.h"
#include "bench_ops.h"

namespace ashlar {

namespace {

constexpr int64_t kLeastBareSteps = 20;
constexpr int64_t kMostBareSteps = 200;

uint64_t seed_of(int64_t row, int64_t repetition) {
  return static_cast<uint64_t>(row * 1000 + repetition);
}

Status run_uncounted(ModelSession& session) {
  BenchCrowd crowd(session, seed_of(0, 0));
  ASHLAR_TRY(crowd.submit(1, 2, 2));
  return session.engine->run_until_idle();
}

Status decode_once(ModelSession& session, const BenchOptions& options, uint64_t seed,
                   DecodeRow& row) {
  BenchCrowd crowd(session, seed);
  ASHLAR_TRY(crowd.submit(row.concurrency, options.prompt_tokens, options.tokens));
  double total = 0;
  int64_t counted = 0;
  for (bool more = true; more;) {
    const auto bytes = static_cast<double>(floor_bytes(
        session.model->info().weight_bytes, session.model->state_needs(), crowd.positions()));
    ASHLAR_ASSIGN(const TimedStep step, crowd.step());
    more = step.more;
    if (step.launched != 1 || step.prompt_rows != 0 || step.decode_rows != row.concurrency) {
      continue;
    }
    row.step_seconds.push_back(step.seconds);
    const auto samples = static_cast<double>(row.step_seconds.size());
    row.step_bytes += (bytes - row.step_bytes) / samples;
    total += step.seconds;
    ++counted;
  }
  if (counted == 0) {
    return fail(ErrorCode::kInvalidArgument,
                "--tokens: {} are too few: no step had all {} sequences past their prompts",
                options.tokens, row.concurrency);
  }
  row.output_tok_s.push_back(static_cast<double>(counted * row.concurrency) / total);
  return {};
}

}  // namespace

int64_t bench_context(BenchKind kind, const BenchOptions& options,
                      std::span<const int64_t> counts) {
  const int64_t most = *std::max_element(counts.begin(), counts.end());
  return kind == BenchKind::kDecode ? options.prompt_tokens + options.tokens : most + 1;
}

Result<EngineOptions> bench_engine_options(BenchKind kind, const BenchOptions& options,
                                           std::span<const int64_t> counts) {
  const int64_t context = bench_context(kind, options, counts);
  EngineOptions engine;
  engine.depth = options.depth;
  engine.graphs = options.graphs;
  engine.step_rows = options.step_rows;
  engine.max_batch =
      kind == BenchKind::kDecode ? *std::max_element(counts.begin(), counts.end()) : 1;
  if (options.max_context != 0 && options.max_context < context) {
    return fail(ErrorCode::kInvalidArgument, "--max-context: {} is too few; this needs {}",
                options.max_context, context);
  }
  engine.max_context = std::max(context, options.max_context);
  // A step in flight may reach a page further than what is asked for.
  engine.kv_positions = engine.max_batch * (round_up(context, kPagePositions) + kPagePositions);
  engine.kv_positions = std::max(engine.kv_positions, round_up(engine.max_context, kPagePositions));
  return engine;
}

Result<std::vector<DecodeRow>> measure_decode(ModelSession& session, const BenchOptions& options,
                                              std::span<const int64_t> counts) {
  if (session.engine != nullptr) ASHLAR_TRY(run_uncounted(session));
  std::vector<DecodeRow> rows;
  for (const int64_t concurrency : counts) {
    DecodeRow& row = rows.emplace_back();
    row.concurrency = concurrency;
    for (int64_t i = 0; session.engine != nullptr && i < options.repetitions; ++i) {
      ASHLAR_TRY(decode_once(session, options, seed_of(concurrency, i), row));
    }
  }
  return rows;
}

Result<std::vector<PrefillRow>> measure_prefill(ModelSession& session, const BenchOptions& options,
                                                std::span<const int64_t> counts) {
  if (session.engine != nullptr) ASHLAR_TRY(run_uncounted(session));
  std::vector<PrefillRow> rows;
  for (const int64_t tokens : counts) {
    PrefillRow& row = rows.emplace_back();
    row.tokens = tokens;
    for (int64_t i = 0; session.engine != nullptr && i < options.repetitions; ++i) {
      BenchCrowd crowd(session, seed_of(tokens, i));
      ASHLAR_TRY(crowd.submit(1, tokens, 1));
      double seconds = 0;
      for (bool more = true; more;) {
        ASHLAR_ASSIGN(const TimedStep step, crowd.step());
        seconds += step.seconds;
        more = step.more;
      }
      row.seconds.push_back(seconds);
    }
  }
  return rows;
}

Status add_bare(const BareSetup& setup, const BenchOptions& options, std::vector<DecodeRow>& rows) {
  const int64_t steps =
      std::clamp(options.tokens * options.repetitions, kLeastBareSteps, kMostBareSteps);
  for (DecodeRow& row : rows) {
    // The mean context of the engine's steps.
    const BedShape step = {.sequences = row.concurrency,
                           .rows = 1,
                           .context = options.prompt_tokens + options.tokens / 2};
    ASHLAR_ASSIGN(row.bare, measure_bare(setup, {step}, steps));
  }
  return {};
}

Status add_bare(const BareSetup& setup, const BenchOptions& options,
                std::vector<PrefillRow>& rows) {
  for (PrefillRow& row : rows) {
    ASHLAR_ASSIGN(row.bare, measure_bare(setup, prompt_chunks(row.tokens, options.step_rows),
                                         options.repetitions));
  }
  return {};
}

Result<std::vector<OpRow>> measure_ops(const BareSetup& setup, const BenchOptions& options,
                                       std::span<const int64_t> counts,
                                       std::span<const int64_t> contexts) {
  std::vector<OpRow> rows;
  for (const int64_t count : counts) {
    for (const int64_t context : contexts) {
      ASHLAR_ASSIGN(OpRow row, measure_op_row(setup, op_shape(count, context), options.split));
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace ashlar
