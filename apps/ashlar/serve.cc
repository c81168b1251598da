// ashlar serve MODEL: answers HTTP clients of the OpenAI API until a signal asks it to stop.
//
// This file builds the parts and ends them in order; what happens in between is in src/serve. The
// threads: the engine's, its device's, one a loop, the prompt workers, the log's, and the main
// thread, which waits for signals.
#include "serve/server.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "console.h"
#include "device/cores.h"
#include "engine/engine_thread.h"
#include "flags.h"
#include "generation_defaults.h"
#include "load_line.h"
#include "model_session.h"
#include "serve/log.h"
#include "serve_options.h"
#include "stop_signal.h"
#include "verbs.h"

namespace ashlar {

namespace {

using std::chrono::milliseconds;

struct ServeCommand {
  std::string model;
  ServeOptions options;
  std::string sampling_source = "ashlar's defaults and flags";
};

CommandLine command_line(ServeCommand& command) {
  return {"serve",
          "Answers clients of the OpenAI API over HTTP.",
          {{"MODEL", "a folder, a .gguf file, a hub id in the local cache, or synthetic:PRESET",
            &command.model, true}},
          command.options.fields()};
}

// What --model-name says, else the file's name without its suffix or the folder's; MODEL as it was
// typed works as well.
std::vector<std::string> model_names(const ServeCommand& command) {
  std::vector<std::string> names = command.options.model_names;
  if (names.empty()) {
    const std::filesystem::path path(command.model);
    std::error_code ignored;
    const std::filesystem::path full = std::filesystem::weakly_canonical(path, ignored);
    const bool is_path = !ignored && std::filesystem::exists(full, ignored);
    const std::filesystem::path name = is_path ? full.filename() : path;
    names.push_back(name.extension() == ".gguf" ? name.stem().string() : name.string());
  }
  if (std::ranges::find(names, command.model) == names.end()) names.push_back(command.model);
  return names;
}

void set_log_level(const std::string& name) {
  set_log_level(name == "debug"     ? LogLevel::kDebug
                : name == "info"    ? LogLevel::kInfo
                : name == "warning" ? LogLevel::kWarning
                                    : LogLevel::kOff);
}

// Sockets need file descriptors; many systems allow 1,024 unless a process asks for more.
void raise_file_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// The options with what was derived from them filled in; a secret is not printed.
std::string settings_text(const ServeCommand& command, const ModelSession& session,
                          const EngineOptions& engine, const Server& server) {
  ServeOptions effective = command.options;
  effective.engine = engine;
  effective.device.device = backend_name(session.device->backend());
  const ThreadPool* pool = session.device->thread_pool();
  effective.device.threads = pool != nullptr ? pool->threads() : 0;
  effective.server.port = server.port();
  effective.model_names = model_names(command);
  if (!effective.server.api_key.empty()) effective.server.api_key = "(set)";
  nlohmann::json settings = options_json(effective.fields());
  settings["sampling_source"] = command.sampling_source;
  return json_text(settings);
}

// Running answers may end; what is left after a while is cancelled, and told so.
void stop_gracefully(Server& server, EngineThread& engine, const ServerOptions& options) {
  log_line(LogLevel::kInfo,
           "stopping: {} requests are being answered; a second signal ends at once",
           server.exchanges());
  server.drain();
  if (!server.wait_idle(milliseconds(options.drain_timeout_ms))) {
    log_line(LogLevel::kWarning, "cancelling {} requests after drain_timeout_ms",
             server.exchanges());
  }
  const StepCounts ran_as = engine.stats().ran_as;
  engine.stop();
  server.wait_idle(milliseconds(1000));
  server.stop();
  log_line(LogLevel::kInfo, "{}", step_counts_text(ran_as));
}

Status serve(ServeCommand& command, const Words& words) {
  ASHLAR_ASSIGN(OpenedModel opened, open_with_defaults(command, words, command_line));
  ServeOptions& options = command.options;
  if (options.server.loops == 0) options.server.loops = usable_cores();
  RunOptions run;
  run.device = options.device;
  run.engine = options.engine;
  StartWish wish;
  wish.on_load = load_line(true);
  wish.on_plan = [](const MemoryPlan& plan) { write_err(memory_plan_text(plan)); };
  ASHLAR_ASSIGN(ModelSession session, start_session(std::move(opened), run, wish));
  ASHLAR_ASSIGN(const auto engine, EngineThread::start(std::move(session.engine)));
  raise_file_limit();
  install_stop_signals();
  set_log_level(options.log_level);
  ServedModel model;
  model.names = model_names(command);
  model.tokenizer = session.tokenizer();
  model.chat_template = session.opened->chat_template;
  model.defaults = options.sampling;
  ASHLAR_ASSIGN(const auto server,
                Server::start(*engine, std::move(model), options.server, std::string(version())));
  print_err("settings: {}\n", settings_text(command, session, engine->options(), *server));
  print_err("ashlar serves {} on {}\n", model_names(command).front(), server->url());
  while (!wait_stop_signal(milliseconds(500))) {
    const std::string failure = server->failure();
    if (failure.empty()) continue;
    server->drain();
    server->wait_idle(milliseconds(1000));  // everyone is told
    server->stop();
    close_log();
    end_at_once({ErrorCode::kDevice, "the engine failed: " + failure});
  }
  stop_gracefully(*server, *engine, options.server);
  return {};
}

}  // namespace

int serve_verb(const Words& words) {
  ServeCommand command;
  CommandLine line = command_line(command);
  const Result<Parsed> parsed = parse_command_line(line, words);
  if (!parsed) return report(parsed.error());
  if (*parsed == Parsed::kHelpShown) return 0;
  const Status status = serve(command, words);
  close_log();
  return status ? 0 : report(status.error());
}

}  // namespace ashlar
