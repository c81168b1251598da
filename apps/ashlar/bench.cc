// ashlar bench decode|prefill|op MODEL: how fast a device runs a model, beside how fast it reads
// memory (docs/bench.md). Builds the same session as `run`; prints a table or one JSON object. A
// run on a device that reads slower than it should ends with an error, after the figures.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench_matmuls.h"
#include "bench_measure.h"
#include "bench_options.h"
#include "bench_read.h"
#include "bench_report.h"
#include "bench_start.h"
#include "console.h"
#include "device_choice.h"
#include "flags.h"
#include "model_session.h"
#include "verbs.h"

namespace ashlar {

namespace {

struct BenchCommand {
  BenchKind kind = BenchKind::kDecode;
  std::string model;
  BenchOptions options;
};

constexpr int64_t kMostSequences = 1024;
constexpr int64_t kMostRows = 65536;

Result<std::vector<int64_t>> counts_of(const BenchCommand& command) {
  const BenchOptions& options = command.options;
  switch (command.kind) {
    case BenchKind::kDecode:
      return parse_counts("--concurrency", options.concurrency, kMostSequences);
    case BenchKind::kPrefill:
      return parse_counts("--lengths", options.lengths, 1 << 20);
    case BenchKind::kOp:
      return parse_counts("--rows", options.rows, kMostRows);
  }
  return fail(ErrorCode::kInternal, "bench: a kind without a list");
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[32] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// The options of this kind with what was derived from them filled in.
nlohmann::json settings_json(const BenchCommand& command, const ModelSession& session) {
  BenchOptions effective = command.options;
  effective.device.device = backend_name(session.device->backend());
  const ThreadPool* pool = session.device->thread_pool();
  effective.device.threads = pool != nullptr ? pool->threads() : 0;
  nlohmann::json settings = options_json(effective.fields(command.kind));
  settings.erase("json");
  settings.erase("output");
  if (session.engine == nullptr) return settings;
  EngineOptions engine = session.engine->options();
  settings.update(options_json(engine.fields()));
  return settings;
}

// What is measured, parsed before anything is loaded.
struct BenchPlan {
  std::vector<int64_t> counts;
  std::vector<int64_t> contexts;  // of op
  MatmulBaseline baseline;
};

Result<BenchPlan> make_plan(const BenchCommand& command) {
  BenchPlan plan;
  ASHLAR_ASSIGN(plan.counts, counts_of(command));
  ASHLAR_ASSIGN(plan.contexts, parse_counts("--contexts", command.options.contexts, 1 << 20));
  if (!command.options.baseline.empty()) {
    ASHLAR_ASSIGN(plan.baseline, MatmulBaseline::read(command.options.baseline));
  }
  return plan;
}

// Without an engine where none is measured.
Result<ModelSession> start_bench_session(const BenchCommand& command, const BenchPlan& plan,
                                         OpenedModel opened) {
  if (command.kind != BenchKind::kOp && command.options.engine) {
    RunOptions run;
    run.device = command.options.device;
    ASHLAR_ASSIGN(run.engine, bench_engine_options(command.kind, command.options, plan.counts));
    return start_session(std::move(opened), run);
  }
  ModelSession session;
  session.opened = std::make_unique<OpenedModel>(std::move(opened));
  ASHLAR_ASSIGN(session.device, open_device(command.options.device));
  const std::vector<int64_t>& contexts = plan.contexts;
  int64_t context = bench_context(command.kind, command.options, plan.counts);
  if (command.kind == BenchKind::kOp) {
    context = std::max(context, *std::max_element(contexts.begin(), contexts.end()));
  }
  ASHLAR_ASSIGN(session.model,
                build_model(session.opened->checkpoint, session.tokenizer().vocab_size(),
                            *session.device, command.options.device, context));
  return session;
}

Status measure(const BenchCommand& command, const BenchPlan& plan, ModelSession& session,
               const BareSetup& setup, BenchReport& report) {
  const BenchOptions& options = command.options;
  // What the engine needs; what is measured without it has memory of its own.
  const auto note_peak = [&] { report.peak_resident_bytes = peak_resident_bytes(); };
  switch (command.kind) {
    case BenchKind::kDecode: {
      ASHLAR_ASSIGN(report.decode, measure_decode(session, options, plan.counts));
      note_peak();
      return add_bare(setup, options, report.decode);
    }
    case BenchKind::kPrefill: {
      ASHLAR_ASSIGN(report.prefill, measure_prefill(session, options, plan.counts));
      note_peak();
      return add_bare(setup, options, report.prefill);
    }
    case BenchKind::kOp: {
      ASHLAR_ASSIGN(report.op, measure_ops(setup, options, plan.counts, plan.contexts));
      note_peak();
      return {};
    }
  }
  return fail(ErrorCode::kInternal, "bench: a kind without a measurement");
}

// Two sizes on the CPU: what the weights can expect, which a large last-level cache may hold, and
// memory itself. A GPU's cache holds neither.
Status measure_reads(Device& device, ReadProbe* probe, BenchReport& report) {
  if (probe != nullptr) {
    ASHLAR_ASSIGN(report.read, probe->measure());
    return {};
  }
  const int64_t weights = std::max(report.weight_bytes, 4 * second_level_cache_bytes());
  {
    ASHLAR_ASSIGN(const auto own, ReadProbe::create(device, weights));
    ASHLAR_ASSIGN(report.read, own->measure());
  }
  const int64_t beyond = 2 * last_level_cache_bytes();
  if (beyond <= weights || available_memory_bytes() < 2 * beyond) return {};
  ASHLAR_ASSIGN(const auto own, ReadProbe::create(device, beyond));
  ASHLAR_ASSIGN(report.read_beyond_cache, own->measure());
  return {};
}

Status write_file(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  if (!file) return fail(ErrorCode::kIo, "--output: {} cannot be written", path);
  return {};
}

BareSetup bare_setup(const BenchCommand& command, const BenchPlan& plan,
                     const ModelSession& session, ReadProbe* probe) {
  BareSetup setup{*session.model, *session.device, {}, plan.baseline, probe, {}};
  setup.matmuls =
      model_matmuls(session.opened->checkpoint->config(), session.model->info().decodable);
  setup.sampling.temperature = 0;
  if (command.options.drawn) {
    setup.sampling.temperature = 0.7;
    setup.sampling.top_p = 0.95;
  }
  return setup;
}

Status bench(const BenchCommand& command) {
  ASHLAR_ASSIGN(const BenchPlan plan, make_plan(command));
  ASHLAR_ASSIGN(OpenedModel opened, open_model(command.model, read_environment()));
  ASHLAR_ASSIGN(ModelSession session, start_bench_session(command, plan, std::move(opened)));
  std::unique_ptr<ReadProbe> probe;
  if (session.device->backend() == Backend::kCuda) {
    ASHLAR_ASSIGN(probe, ReadProbe::create(*session.device, kDeviceReadBytes));
  }
  BenchReport report;
  report.kind = bench_kind_name(command.kind);
  report.device = session.device->name();
  report.commit = build_commit();
  report.date = utc_now();
  report.model = command.model;
  report.format = session.model->info().weight_formats;
  report.weight_bytes = session.model->info().weight_bytes;
  report.settings = settings_json(command, session);
  report.baseline = plan.baseline.title();
  report.limit_flops = plan.baseline.best_flops();
  const BareSetup setup = bare_setup(command, plan, session, probe.get());
  ASHLAR_TRY(measure(command, plan, session, setup, report));
  if (command.options.read_speed) {
    ASHLAR_TRY(measure_reads(*session.device, probe.get(), report));
  }
  const std::string object = json_text(bench_json(report), 2) + "\n";
  write_out(command.options.json ? object : bench_text(report));
  if (!command.options.output.empty()) ASHLAR_TRY(write_file(command.options.output, object));
  const std::string invalid = why_invalid(report.device, report.read);
  if (invalid.empty()) return {};
  return fail(ErrorCode::kDevice, "this run is invalid: {}", invalid);
}

constexpr std::string_view kUsage =
    "usage: ashlar bench KIND MODEL [--flag ...]; ashlar bench KIND --help tells more\n\n"
    "  decode     steps in which N sequences each get a token\n"
    "  prefill    prompts of N tokens, up to the first token of the answer\n"
    "  op         the time of each kind of operation, in a step and alone\n"
    "  start      where the time goes until the first answer\n";

}  // namespace

int bench_verb(const Words& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    words.empty() ? write_err(kUsage) : write_out(kUsage);
    return words.empty() ? 2 : 0;
  }
  if (words[0] == "start") return bench_start_verb(Words(words.begin() + 1, words.end()));
  const Result<BenchKind> kind = parse_bench_kind(words[0]);
  if (!kind) return report(kind.error());
  BenchCommand command;
  command.kind = *kind;
  CommandLine line = {
      "bench " + words[0],
      "Measures how fast this machine runs a model.",
      {{"MODEL", "a folder, a .gguf file, a hub id in the local cache, or synthetic:PRESET",
        &command.model, true}},
      command.options.fields(command.kind)};
  const Result<Parsed> parsed = parse_command_line(line, Words(words.begin() + 1, words.end()));
  if (!parsed) return report(parsed.error());
  if (*parsed == Parsed::kHelpShown) return 0;
  const Status done = bench(command);
  return done ? 0 : report(done.error());
}

}  // namespace ashlar
