// What counts as a row: decode steps with all sequences and no prompt in them, whole prefills from
// submission to the first token, and single steps with the time of each operation.
#include "bench_measure.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>

#include "base/align.h"
#include "bench_crowd.h"

namespace ashlar {

namespace {

// Operations by name; with `split` also by size, rounded so that a growing cache gives few lines.
class OpLines : public StreamObserver {
 public:
  explicit OpLines(bool split) : split_(split) {}

  void op_begin(Stream&, const OpEvent&) override { began_ = std::chrono::steady_clock::now(); }
  void op_end(Stream&, const OpEvent& event) override {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began_;
    OpLine& line = step_[{event.name, split_ ? rounded_size(event.bytes) : 0}];
    ++line.calls;
    line.seconds += took.count();
    line.bytes += event.bytes;
    line.flops += event.flops;
  }

  // What was seen since the last call is counted, or forgotten.
  void end_step(bool counts) {
    for (const auto& [key, line] : step_) {
      if (!counts) continue;
      OpLine& sum = sums_[key];
      sum.calls += line.calls;
      sum.seconds += line.seconds;
      sum.bytes += line.bytes;
      sum.flops += line.flops;
    }
    step_.clear();
  }

  std::vector<OpLine> lines() const {
    std::vector<OpLine> out;
    for (const auto& [key, sum] : sums_) {
      OpLine line = sum;
      const double mega = static_cast<double>(sum.bytes) / static_cast<double>(sum.calls) * 1e-6;
      line.name = split_ ? fmt::format("{} {:.3f} MB", key.first, mega) : std::string(key.first);
      out.push_back(std::move(line));
    }
    std::sort(out.begin(), out.end(),
              [](const OpLine& a, const OpLine& b) { return a.seconds > b.seconds; });
    return out;
  }

 private:
  using Key = std::pair<std::string_view, int64_t>;

  // The four leading bits of the size.
  static int64_t rounded_size(int64_t bytes) {
    int64_t unit = 1;
    while (bytes / unit >= 16) unit *= 2;
    return bytes / unit * unit;
  }

  bool split_;
  std::chrono::steady_clock::time_point began_;
  std::map<Key, OpLine> step_;
  std::map<Key, OpLine> sums_;
};

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
    const int64_t kv_bytes = kv_read_bytes(session.model->state_needs(), crowd.positions());
    ASHLAR_ASSIGN(const TimedStep step, crowd.step());
    more = step.more;
    if (step.launched != 1 || step.prompt_rows != 0 || step.decode_rows != row.concurrency) {
      continue;
    }
    const double bytes = static_cast<double>(session.model->info().weight_bytes + kv_bytes);
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

// One decode phase or one prefill phase of so many rows.
Result<OpRow> ops_once(ModelSession& session, const BenchOptions& options, bool decode,
                       int64_t rows) {
  OpRow out;
  out.phase = decode ? "decode" : "prefill";
  out.rows = rows;
  OpLines lines(options.split);
  for (int64_t repetition = 0; repetition < options.repetitions; ++repetition) {
    BenchCrowd crowd(session, seed_of(rows, repetition));
    ASHLAR_TRY(decode ? crowd.submit(rows, options.prompt_tokens, options.tokens)
                      : crowd.submit(1, rows, 1));
    session.engine->observe(&lines);
    for (bool more = true; more;) {
      ASHLAR_ASSIGN(const TimedStep step, crowd.step());
      more = step.more;
      const bool counts = step.launched == 1 &&
                          (decode ? step.decode_rows : step.prompt_rows) == rows &&
                          (decode ? step.prompt_rows : step.decode_rows) == 0;
      lines.end_step(counts);
      if (!counts) continue;
      out.seconds += step.seconds;
      ++out.steps;
    }
    session.engine->observe(nullptr);
  }
  if (out.steps == 0) {
    return fail(ErrorCode::kInvalidArgument,
                "--tokens: {} are too few: no step had all {} sequences past their prompts",
                options.tokens, rows);
  }
  out.lines = lines.lines();
  return out;
}

}  // namespace

Result<EngineOptions> bench_engine_options(BenchKind kind, const BenchOptions& options,
                                           std::span<const int64_t> counts) {
  const int64_t most = *std::max_element(counts.begin(), counts.end());
  const int64_t decode_context = options.prompt_tokens + options.tokens;
  EngineOptions engine;
  engine.depth = options.depth;
  engine.step_rows = options.step_rows;
  engine.max_batch = 1;
  int64_t context = most + 1;
  if (kind == BenchKind::kDecode) {
    engine.max_batch = most;
    context = decode_context;
  } else if (kind == BenchKind::kOp) {
    for (const int64_t count : counts) {
      if (count <= kMostDecodeRows) engine.max_batch = std::max(engine.max_batch, count);
    }
    engine.step_rows = std::max(most, options.step_rows);
    context = std::max(context, decode_context);
  }
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
  ASHLAR_TRY(run_uncounted(session));
  std::vector<DecodeRow> rows;
  for (const int64_t concurrency : counts) {
    DecodeRow& row = rows.emplace_back();
    row.concurrency = concurrency;
    for (int64_t repetition = 0; repetition < options.repetitions; ++repetition) {
      ASHLAR_TRY(decode_once(session, options, seed_of(concurrency, repetition), row));
    }
  }
  return rows;
}

Result<std::vector<PrefillRow>> measure_prefill(ModelSession& session, const BenchOptions& options,
                                                std::span<const int64_t> counts) {
  ASHLAR_TRY(run_uncounted(session));
  std::vector<PrefillRow> rows;
  for (const int64_t tokens : counts) {
    PrefillRow& row = rows.emplace_back();
    row.tokens = tokens;
    for (int64_t repetition = 0; repetition < options.repetitions; ++repetition) {
      BenchCrowd crowd(session, seed_of(tokens, repetition));
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

Result<std::vector<OpRow>> measure_ops(ModelSession& session, const BenchOptions& options,
                                       std::span<const int64_t> counts) {
  ASHLAR_TRY(run_uncounted(session));
  std::vector<OpRow> rows;
  for (const int64_t count : counts) {
    if (count <= kMostDecodeRows) {
      ASHLAR_ASSIGN(OpRow row, ops_once(session, options, true, count));
      rows.push_back(std::move(row));
    }
    ASHLAR_ASSIGN(OpRow row, ops_once(session, options, false, count));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace ashlar
