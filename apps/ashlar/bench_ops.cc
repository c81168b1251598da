// Each kind of operation alone: its calls of one step, taken over all layers and over copies of
// pages and workspace in turns, so that weights and keys do not stay in the cache; recorded one
// behind the other. Before that the step runs up to the last of them, so that they find the inputs
// that they have in a step: the workspace is reused by what comes later.
#include "bench_ops.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/align.h"
#include "base/check.h"
#include "bench_time.h"

namespace ashlar {

namespace {

constexpr int64_t kDeviceCache = int64_t{60} << 20;  // of the GPUs that kernels are compiled for
constexpr int64_t kCopyBudget = int64_t{8} << 30;    // of their memory, for copies
constexpr int64_t kMostCopies = 16;
constexpr size_t kMostCalls = 128;  // of a recording

struct Group {
  std::string label;
  std::vector<size_t> calls;  // indices
};

// In the order of their first call.
std::vector<Group> group_calls(const std::vector<std::string>& labels) {
  std::vector<Group> groups;
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto [at, is_new] = known.emplace(labels[i], groups.size());
    if (is_new) groups.push_back({labels[i], {}});
    groups[at->second].calls.push_back(i);
  }
  return groups;
}

// A step with its operations, for each copy of pages and workspace.
struct Copies {
  std::vector<BedStep> steps;
  std::vector<std::vector<OpCall>> calls;
};

int64_t cache_bytes(const Device& device) {
  return device.backend() == Backend::kCuda ? kDeviceCache : last_level_cache_bytes();
}

// As many as make the smallest operation of a step, a norm, touch more than twice the cache. The
// CPU gets one: memory and time for more would be the machine's.
int64_t copies_for(const BareSetup& setup, const BedShape& shape) {
  if (setup.device.backend() == Backend::kCpu) return 1;
  const int64_t norm_bytes = 6 * shape.all_rows() * setup.model.info().hidden;
  const int64_t copy_bytes = setup.model.workspace_bytes(shape.all_rows(), shape.output_rows()) +
                             shape.output_rows() * setup.model.info().vocabulary * 4 +
                             shape.pages() * setup.model.state_needs().page_bytes();
  return std::clamp<int64_t>(
      std::min(divide_up(2 * kDeviceCache, norm_bytes), kCopyBudget / copy_bytes), 1, kMostCopies);
}

// How many calls are recorded, and whether they touch more than the cache.
struct CallCount {
  size_t count = 0;
  bool beyond_cache = false;
};

// Keys differ from layer to layer and from copy to copy, weights from layer to layer alone, and
// activations from copy to copy alone.
CallCount count_calls(const Group& group, const OpCalls& calls, size_t copies, int64_t cache) {
  const std::string_view name = calls[group.calls.front()].name;
  int64_t bytes = 0;
  for (const size_t i : group.calls) bytes += calls[i].bytes;
  const auto layers = static_cast<int64_t>(group.calls.size());
  const int64_t each = std::max<int64_t>(1, bytes / layers);
  int64_t distinct = static_cast<int64_t>(copies);
  if (name.find("matmul") != std::string_view::npos) distinct = layers;
  if (name == "attention") distinct = layers * static_cast<int64_t>(copies);
  const int64_t wanted = std::min(distinct, divide_up(2 * cache + 1, each));
  const int64_t least = std::max(layers, static_cast<int64_t>(copies));
  CallCount out;
  out.count = std::min(kMostCalls, static_cast<size_t>(std::max(wanted, least)));
  out.beyond_cache = std::min(distinct, static_cast<int64_t>(out.count)) * each > 2 * cache;
  return out;
}

Result<AloneTimes> time_alone(const BareSetup& setup, BenchBed& bed, const Copies& copies,
                              const Group& group, const OpCalls& calls, const BedShape& shape) {
  Stream& stream = bed.stream();
  const size_t last = group.calls.back();
  for (const auto& all : copies.calls) {
    for (size_t i = 0; i <= last; ++i) run_call(stream, all[i]);
  }
  const size_t layers = group.calls.size();
  const CallCount chosen =
      count_calls(group, calls, copies.calls.size(), cache_bytes(setup.device));
  const auto issue = [&] {
    // Every layer with every copy before a pair comes again.
    for (size_t i = 0; i < chosen.count; ++i) {
      const auto& copy = copies.calls[(i / layers + i % layers) % copies.calls.size()];
      run_call(stream, copy[group.calls[i % layers]]);
    }
  };
  ASHLAR_TRY(stream.synchronize());
  ASHLAR_ASSIGN(const auto recording, record_work(stream, issue));
  const auto replay = [&] { stream.replay(*recording); };
  ASHLAR_ASSIGN(const std::vector<double> first, time_runs(stream, 1, replay));
  ASHLAR_ASSIGN(std::vector<double> seconds,
                time_runs(stream, runs_for(0.06, first.front(), 5, 60), replay));
  for (double& value : seconds) value /= static_cast<double>(chosen.count);
  AloneTimes times;
  times.seconds = std::move(seconds);
  times.beyond_cache = chosen.beyond_cache;
  const auto found =
      find_matmul(setup.matmuls, calls[last].flops, shape.all_rows(), shape.output_rows());
  if (found && calls[last].name.find("matmul") != std::string_view::npos) {
    times.baseline_seconds =
        setup.baseline.seconds(found->rows, found->shape->outputs, found->shape->inputs)
            .value_or(0);
  }
  return times;
}

// The four leading bits of a size, so that a growing cache gives few lines.
int64_t rounded_size(int64_t bytes) {
  int64_t unit = 1;
  while (bytes / unit >= 16) unit *= 2;
  return bytes / unit * unit;
}

Result<Copies> make_copies(BenchBed& bed, const BedShape& shape, int64_t count) {
  Copies copies;
  for (int64_t copy = 0; copy < count; ++copy) {
    ASHLAR_ASSIGN(BedStep step, bed.make_step(shape, copy));
    bed.issue(bed.stream(), step);
    copies.calls.push_back(bed.calls(step));
    copies.steps.push_back(std::move(step));
  }
  ASHLAR_TRY(bed.tokens(copies.steps.front()));
  return copies;
}

}  // namespace

BedShape op_shape(int64_t rows, int64_t context) {
  if (rows <= kMostDecodeRows) return {.sequences = rows, .rows = 1, .context = context};
  return {.sequences = 1, .rows = rows, .context = std::max(rows, context)};
}

std::vector<std::string> call_labels(const OpCalls& calls, const BareSetup& setup,
                                     const BedShape& shape, bool split) {
  const StateNeeds& needs = setup.model.state_needs();
  std::vector<std::string> labels;
  size_t layer = 0;
  for (const DeviceOpTable::Call& call : calls) {
    std::string label(call.name);
    if (call.name.find("matmul") != std::string_view::npos) {
      const auto found =
          find_matmul(setup.matmuls, call.flops, shape.all_rows(), shape.output_rows());
      if (found) {
        label += fmt::format(" {} {}x{}", found->shape->part, found->shape->outputs,
                             found->shape->inputs);
      }
    } else if (call.name == "attention" && layer < needs.paged.size()) {
      const int64_t window = needs.paged[layer++].window;
      if (window > 0) label += fmt::format(" window {}", window);
    }
    if (split)
      label += fmt::format(" {:.3f} MB", static_cast<double>(rounded_size(call.bytes)) * 1e-6);
    labels.push_back(std::move(label));
  }
  return labels;
}

Result<OpRow> measure_op_row(const BareSetup& setup, const BedShape& shape, bool split) {
  const int64_t count = copies_for(setup, shape);
  ASHLAR_ASSIGN(const auto bed,
                BenchBed::create(setup.model, setup.device,
                                 {.shapes = {shape}, .copies = count, .sampling = setup.sampling}));
  ASHLAR_ASSIGN(const Copies copies, make_copies(*bed, shape, count));
  Stream& stream = bed->stream();
  const BedStep& step = copies.steps.front();
  OpRow row;
  row.phase = shape.rows == 1 ? "decode" : "prefill";
  row.rows = shape.all_rows();
  row.context = shape.context;
  const std::vector<int64_t> positions(static_cast<size_t>(shape.sequences), shape.context);
  row.bytes = static_cast<double>(
      floor_bytes(setup.model.info().weight_bytes, setup.model.state_needs(), positions));

  ASHLAR_ASSIGN(const auto recording, record_work(stream, [&] { bed->issue(stream, step); }));
  const auto replay = [&] { stream.replay(*recording); };
  ASHLAR_ASSIGN(const std::vector<double> warm, time_runs(stream, 3, replay));
  ASHLAR_ASSIGN(row.step_seconds, time_runs(stream, runs_for(0.3, warm.back(), 5, 100), replay));

  ASHLAR_ASSIGN(const OpCalls calls, median_calls(setup, *bed, step, 5));
  CHECK_EQ(calls.size(), copies.calls.front().size());
  add_matmul_work(setup, calls, shape, row.matmul);
  for (const Group& group : group_calls(call_labels(calls, setup, shape, split))) {
    OpLine line;
    line.name = group.label;
    for (const size_t i : group.calls) {
      ++line.calls;
      line.seconds += calls[i].seconds;
      line.bytes += calls[i].bytes;
      line.flops += calls[i].flops;
    }
    ASHLAR_ASSIGN(line.alone, time_alone(setup, *bed, copies, group, calls, shape));
    row.lines.push_back(std::move(line));
  }
  std::stable_sort(row.lines.begin(), row.lines.end(),
                   [](const OpLine& a, const OpLine& b) { return a.seconds > b.seconds; });
  return row;
}

}  // namespace ashlar
