// Recording, replay and the direct runs with events. A direct run on a GPU is timed behind a long
// read, so that the host has issued everything by the time the first operation starts.
#include "bench_bare.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bench_time.h"

namespace ashlar {

namespace {

constexpr int64_t kWarmUps = 3;
constexpr double kPassSeconds = 1.5e-3;  // at least, of kDeviceReadBytes
constexpr int64_t kMostPasses = 16;

// Keys that a layer with this window reads for rows [context - rows, context) of a sequence.
int64_t visible_keys(const BedShape& shape, int64_t window) {
  return window > 0 ? std::min(shape.context, window + shape.rows - 1) : shape.context;
}

// Pairs of a row and a key that it sees.
int64_t visible_pairs(const BedShape& shape, int64_t window) {
  int64_t pairs = 0;
  for (int64_t p = shape.context - shape.rows; p < shape.context; ++p) {
    pairs += window > 0 ? std::min(p + 1, window) : p + 1;
  }
  return pairs;
}

bool is_matmul(std::string_view name) { return name.find("matmul") != std::string_view::npos; }

double issue_seconds(BenchBed& bed, const BedStep& step) {
  const auto begin = std::chrono::steady_clock::now();
  bed.issue(bed.stream(), step);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// One direct run with every operation timed.
Result<OpCalls> timed_calls(const BareSetup& setup, BenchBed& bed, const BedStep& step,
                            int64_t passes, double* host_seconds) {
  DeviceOpTable table;
  Stream& stream = bed.stream();
  for (int64_t i = 0; i < passes; ++i) setup.probe->pass(stream);
  stream.set_observer(&table);
  const double seconds = issue_seconds(bed, step);
  stream.set_observer(nullptr);
  if (host_seconds != nullptr) *host_seconds = seconds;
  return table.take();
}

}  // namespace

void add_attention_cost(OpCalls& calls, const BedShape& shape, const StateNeeds& needs) {
  size_t layer = 0;
  for (DeviceOpTable::Call& call : calls) {
    if (call.name != "attention" || layer == needs.paged.size()) continue;
    const PagedState& state = needs.paged[layer++];
    if (call.flops != 0) continue;
    // Until here its bytes are those of queries and outputs, two each.
    const int64_t columns = call.bytes / (4 * shape.all_rows());
    call.bytes += shape.sequences * visible_keys(shape, state.window) * state.bytes_per_position;
    call.flops = 4 * shape.sequences * visible_pairs(shape, state.window) * columns;
  }
}

Result<OpCalls> median_calls(const BareSetup& setup, BenchBed& bed, const BedStep& step,
                             int64_t runs) {
  int64_t passes = 0;
  if (setup.probe != nullptr) {
    // Without a head start this run's times mean nothing; it tells how long the host takes.
    double host_seconds = 0;
    ASHLAR_TRY(timed_calls(setup, bed, step, 0, &host_seconds));
    passes = std::min(kMostPasses, static_cast<int64_t>(host_seconds / kPassSeconds) + 2);
  }
  std::vector<OpCalls> all;
  for (int64_t run = 0; run < runs; ++run) {
    ASHLAR_ASSIGN(OpCalls calls, timed_calls(setup, bed, step, passes, nullptr));
    all.push_back(std::move(calls));
  }
  OpCalls out = all.front();
  for (size_t i = 0; i < out.size(); ++i) {
    std::vector<double> seconds;
    for (const OpCalls& calls : all) seconds.push_back(calls[i].seconds);
    out[i].seconds = median(std::move(seconds));
  }
  add_attention_cost(out, step.shape, setup.model.state_needs());
  return out;
}

void add_matmul_work(const BareSetup& setup, const OpCalls& calls, const BedShape& shape,
                     MatmulWork& work) {
  bool complete = !setup.baseline.empty() && !std::isnan(work.baseline_seconds);
  for (const DeviceOpTable::Call& call : calls) {
    if (!is_matmul(call.name)) continue;
    work.flops += static_cast<double>(call.flops);
    work.seconds += call.seconds;
    if (!complete) continue;
    const auto found =
        find_matmul(setup.matmuls, call.flops, shape.all_rows(), shape.output_rows());
    const auto baseline =
        found ? setup.baseline.seconds(found->rows, found->shape->outputs, found->shape->inputs)
              : std::nullopt;
    complete = baseline.has_value();
    work.baseline_seconds += baseline.value_or(0);
  }
  // One product that is not in the baseline makes the sum no comparison.
  if (!complete) work.baseline_seconds = std::nan("");
}

std::vector<BedShape> prompt_chunks(int64_t tokens, int64_t step_rows) {
  std::vector<BedShape> chunks;
  for (int64_t done = 0; done < tokens;) {
    const int64_t rows = std::min(step_rows, tokens - done);
    done += rows;
    chunks.push_back(
        {.sequences = 1, .rows = rows, .context = done, .wants_tokens = done == tokens});
  }
  return chunks;
}

Result<BareRun> measure_bare(const BareSetup& setup, const std::vector<BedShape>& shapes,
                             int64_t runs) {
  ASHLAR_ASSIGN(const auto bed,
                BenchBed::create(setup.model, setup.device,
                                 {.shapes = shapes, .copies = 1, .sampling = setup.sampling}));
  std::vector<BedStep> steps;
  for (const BedShape& shape : shapes) {
    ASHLAR_ASSIGN(BedStep step, bed->make_step(shape));
    steps.push_back(std::move(step));
  }
  Stream& stream = bed->stream();
  const auto issue = [&] {
    for (const BedStep& step : steps) bed->issue(stream, step);
  };
  issue();  // kernels are chosen and loaded at first use, which a recording forbids
  ASHLAR_TRY(bed->tokens(steps.back()));
  ASHLAR_ASSIGN(const auto recording, record_work(stream, issue));
  const auto replay = [&] { stream.replay(*recording); };
  const bool one_step = shapes.size() == 1;
  ASHLAR_TRY(time_runs(stream, one_step ? kWarmUps : 1, replay));
  BareRun run;
  run.context = shapes.back().context;
  ASHLAR_ASSIGN(run.seconds, time_runs(stream, runs, replay));
  ASHLAR_TRY(bed->tokens(steps.back()));
  const bool gpu = setup.device.backend() == Backend::kCuda;
  for (const BedStep& step : steps) {
    ASHLAR_ASSIGN(const OpCalls calls, median_calls(setup, *bed, step, gpu || one_step ? 3 : 1));
    run.ops += static_cast<int64_t>(calls.size());
    add_matmul_work(setup, calls, step.shape, run.matmul);
  }
  if (one_step) {
    const std::vector<int64_t> positions(static_cast<size_t>(shapes.front().sequences),
                                         run.context);
    run.bytes = static_cast<double>(
        floor_bytes(setup.model.info().weight_bytes, setup.model.state_needs(), positions));
  }
  return run;
}

}  // namespace ashlar
