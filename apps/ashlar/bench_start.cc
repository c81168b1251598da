// Starts a session as `run` does and sends it the same kind of request again and again: whatever is
// made ready only when it is first needed shows as a slow first answer.
#include "bench_start.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "console.h"
#include "flags.h"
#include "load_line.h"

namespace ashlar {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A prompt of its own for each request, so that none is served from another's pages.
Result<StartedRequest> ask(ModelSession& session, const BenchStartOptions& options,
                           uint32_t number) {
  std::mt19937 random(number);
  const auto vocabulary = static_cast<uint32_t>(session.model->info().decodable);
  StartedRequest result;
  std::string failure;
  Request request;
  for (int64_t i = 0; i < options.prompt_tokens; ++i) {
    request.prompt.push_back(static_cast<int32_t>(random() % vocabulary));
  }
  request.sampling.temperature = 0;
  request.ignore_eos = true;
  request.max_tokens = options.tokens;
  const auto start = Clock::now();
  request.on_event = [&](const RequestEvent& event) {
    if (result.first_token_seconds == 0 && !event.tokens.empty()) {
      result.first_token_seconds = seconds_since(start);
    }
    if (event.finish == FinishReason::kError) failure = event.error.message;
  };
  ASHLAR_TRY(session.engine->submit(std::move(request)));
  ASHLAR_TRY(session.engine->run_until_idle());
  result.total_seconds = seconds_since(start);
  if (!failure.empty()) return fail(ErrorCode::kDevice, "a request failed: {}", failure);
  return result;
}

struct Part {
  std::string_view name;
  double seconds;
};

std::vector<Part> parts_of(const StartReport& report) {
  const StartTimes& times = report.times;
  return {{"open and parse", report.checkpoint_seconds},
          {"tokenizer", report.text_seconds},
          {"device", times.device_seconds},
          {"memory plan", times.plan_seconds},
          {"weights", times.load.seconds},
          {"rest of the model", times.model_seconds - times.load.seconds},
          {"engine", times.engine_seconds},
          {"first token", report.requests.front().first_token_seconds}};
}

std::string line(std::string_view name, double seconds, std::string_view note = "") {
  return fmt::format("  {:<26}{:>9.3f} s{}{}\n", name, seconds, note.empty() ? "" : "   ", note);
}

Result<StartReport> measure(const std::string& model, const BenchStartOptions& options) {
  StartReport report;
  ASHLAR_ASSIGN(OpenedModel opened, open_model(model, read_environment()));
  report.checkpoint_seconds = opened.checkpoint_seconds;
  report.text_seconds = opened.text_seconds;
  RunOptions run;
  run.device = options.device;
  run.engine = options.engine;
  StartWish wish;
  wish.on_load = load_line(false);
  ASHLAR_ASSIGN(ModelSession session, start_session(std::move(opened), run, wish));
  for (int64_t i = 0; i < options.requests; ++i) {
    ASHLAR_ASSIGN(const StartedRequest request, ask(session, options, static_cast<uint32_t>(i)));
    report.requests.push_back(request);
  }
  report.device = session.device->name();
  report.commit = build_commit();
  report.model = model;
  report.format = session.model->info().weight_formats;
  report.times = session.times;
  report.plan = session.engine->memory_plan();
  const DeviceMemory memory = session.device->memory();
  report.used_bytes = static_cast<int64_t>(memory.total_bytes - memory.free_bytes);
  return report;
}

Status bench_start(const std::string& model, const BenchStartOptions& options) {
  ASHLAR_ASSIGN(const StartReport report, measure(model, options));
  const std::string object = json_text(start_json(report), 2) + "\n";
  write_out(options.json ? object : start_text(report));
  if (options.output.empty()) return {};
  std::ofstream file(options.output, std::ios::binary | std::ios::trunc);
  file << object << std::flush;
  if (!file) return fail(ErrorCode::kIo, "--output: {} cannot be written", options.output);
  return {};
}

}  // namespace

OptionFields BenchStartOptions::fields() {
  OptionFields f;
  device.add_to(f);
  OptionFields engine_fields = engine.fields();
  std::erase_if(engine_fields.list(),
                [](const OptionField& field) { return field.name == "max_waiting"; });
  f.append(engine_fields);
  f.add("prompt_tokens", prompt_tokens, "prompt tokens of a request").range(1, 1 << 20);
  f.add("tokens", tokens, "output tokens of a request").range(1, 1 << 20);
  f.add("requests", requests, "requests, one after the other").range(2, 1000);
  f.add("json", json, "print one JSON object instead of a table");
  f.add("output", output, "file that the JSON object is written to as well");
  return f;
}

double StartReport::ready_seconds() const {
  return checkpoint_seconds + text_seconds + times.device_seconds + times.plan_seconds +
         times.model_seconds + times.engine_seconds;
}

double StartReport::first_token_seconds() const {
  return ready_seconds() + requests.front().first_token_seconds;
}

double StartReport::first_over_second() const {
  return requests[0].total_seconds / std::max(requests[1].total_seconds, 1e-9);
}

nlohmann::json start_json(const StartReport& report) {
  nlohmann::json out = {{"kind", "start"},
                        {"device", report.device},
                        {"commit", report.commit},
                        {"model", report.model},
                        {"format", report.format},
                        {"ready_seconds", report.ready_seconds()},
                        {"first_token_seconds", report.first_token_seconds()},
                        {"first_over_second", report.first_over_second()},
                        {"memory", memory_plan_json(report.plan)},
                        {"driver_used_bytes", report.used_bytes}};
  for (const Part& part : parts_of(report)) {
    out["parts"].push_back({{"name", part.name}, {"seconds", part.seconds}});
  }
  const LoadProgress& load = report.times.load;
  out["load"] = {{"bytes", load.done_bytes},
                 {"seconds", load.seconds},
                 {"read_wait_seconds", load.read_wait_seconds},
                 {"device_wait_seconds", load.device_wait_seconds},
                 {"reading_seconds", load.reading_seconds},
                 {"threads", load.threads},
                 {"ring_bytes", load.ring_bytes}};
  for (const StartedRequest& request : report.requests) {
    out["requests"].push_back({{"first_token_seconds", request.first_token_seconds},
                               {"total_seconds", request.total_seconds}});
  }
  return out;
}

std::string start_text(const StartReport& report) {
  std::string text = fmt::format("{} on {} ({}), commit {}\n", report.model, report.device,
                                 report.format, report.commit);
  const LoadProgress& load = report.times.load;
  for (const Part& part : parts_of(report)) {
    std::string note;
    if (part.name == "weights" && load.done_bytes > 0) {
      note = fmt::format(
          "{}; {} threads read, {:.0f} MB pinned; {:.3f} s waiting for them, {:.3f} s "
          "for the device",
          load_text(load), load.threads, static_cast<double>(load.ring_bytes) * 1e-6,
          load.read_wait_seconds, load.device_wait_seconds);
    }
    text += line(part.name, part.seconds, note);
  }
  text += line("until the first token", report.first_token_seconds());
  text += "\nrequests, one after the other\n";
  for (size_t i = 0; i < report.requests.size(); ++i) {
    const StartedRequest& request = report.requests[i];
    text += line(fmt::format("{}: whole answer", i + 1), request.total_seconds,
                 fmt::format("first token after {:.3f} s", request.first_token_seconds));
  }
  text += fmt::format("  the first takes {:.2f} times as long as the second\n\n",
                      report.first_over_second());
  text += memory_plan_text(report.plan);
  if (report.used_bytes > 0) {
    text += fmt::format("  the driver says that {:.3f} GB are in use; planned {:.3f} GB\n",
                        static_cast<double>(report.used_bytes) * 1e-9,
                        static_cast<double>(report.plan.planned_bytes()) * 1e-9);
  }
  return text;
}

int bench_start_verb(const Words& words) {
  std::string model;
  BenchStartOptions options;
  CommandLine line = {
      "bench start",
      "Measures where the time of a start goes, up to the first answers.",
      {{"MODEL", "a folder, a .gguf file, a hub id in the local cache, or synthetic:PRESET", &model,
        true}},
      options.fields()};
  const Result<Parsed> parsed = parse_command_line(line, words);
  if (!parsed) return report(parsed.error());
  if (*parsed == Parsed::kHelpShown) return 0;
  const Status done = bench_start(model, options);
  return done ? 0 : report(done.error());
}

}  // namespace ashlar
