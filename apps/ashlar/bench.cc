// ashlar bench decode|prefill|op MODEL: how fast this machine runs a model, beside how fast it
// reads memory (docs/bench.md). Builds the same session as `run`; prints a table or one JSON
// object.
#include <chrono>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench_measure.h"
#include "bench_options.h"
#include "bench_read.h"
#include "bench_report.h"
#include "console.h"
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
  effective.device.threads = session.device->thread_pool()->threads();
  nlohmann::json settings = options_json(effective.fields(command.kind));
  settings.erase("json");
  settings.erase("output");
  EngineOptions engine = session.engine->options();
  settings.update(options_json(engine.fields()));
  return settings;
}

Status measure(const BenchCommand& command, std::span<const int64_t> counts, ModelSession& session,
               BenchReport& report) {
  switch (command.kind) {
    case BenchKind::kDecode: {
      ASHLAR_ASSIGN(report.decode, measure_decode(session, command.options, counts));
      break;
    }
    case BenchKind::kPrefill: {
      ASHLAR_ASSIGN(report.prefill, measure_prefill(session, command.options, counts));
      break;
    }
    case BenchKind::kOp: {
      ASHLAR_ASSIGN(report.op, measure_ops(session, command.options, counts));
      break;
    }
  }
  // Before the buffers of the read measurement count as well.
  report.peak_resident_bytes = peak_resident_bytes();
  return {};
}

// Two sizes: what the weights can expect, which a large last-level cache may hold, and memory
// itself.
Status measure_reads(Device& device, BenchReport& report) {
  const int64_t weights = std::max(report.weight_bytes, 4 * second_level_cache_bytes());
  ASHLAR_ASSIGN(report.read, measure_read(device, weights));
  const int64_t beyond = 2 * last_level_cache_bytes();
  if (beyond <= weights || available_memory_bytes() < 2 * beyond) return {};
  ASHLAR_ASSIGN(report.read_beyond_cache, measure_read(device, beyond));
  return {};
}

Status write_file(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  if (!file) return fail(ErrorCode::kIo, "--output: {} cannot be written", path);
  return {};
}

Status bench(const BenchCommand& command) {
  ASHLAR_ASSIGN(const std::vector<int64_t> counts, counts_of(command));
  RunOptions run;
  run.device = command.options.device;
  ASHLAR_ASSIGN(run.engine, bench_engine_options(command.kind, command.options, counts));
  ASHLAR_ASSIGN(OpenedModel opened, open_model(command.model, read_environment()));
  ASHLAR_ASSIGN(ModelSession session, start_session(std::move(opened), run));
  BenchReport report;
  report.kind = bench_kind_name(command.kind);
  report.device = session.device->name();
  report.commit = build_commit();
  report.date = utc_now();
  report.model = command.model;
  report.format = session.model->info().weight_formats;
  report.weight_bytes = session.model->info().weight_bytes;
  report.settings = settings_json(command, session);
  ASHLAR_TRY(measure(command, counts, session, report));
  if (command.options.read_speed) ASHLAR_TRY(measure_reads(*session.device, report));
  const std::string object = json_text(bench_json(report), 2) + "\n";
  write_out(command.options.json ? object : bench_text(report));
  if (!command.options.output.empty()) ASHLAR_TRY(write_file(command.options.output, object));
  return {};
}

constexpr std::string_view kUsage =
    "usage: ashlar bench KIND MODEL [--flag ...]; ashlar bench KIND --help tells more\n\n"
    "  decode     steps in which N sequences each get a token\n"
    "  prefill    prompts of N tokens, up to the first token of the answer\n"
    "  op         the time of each kind of operation in one step\n";

}  // namespace

int bench_verb(const Words& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    words.empty() ? write_err(kUsage) : write_out(kUsage);
    return words.empty() ? 2 : 0;
  }
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
