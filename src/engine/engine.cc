// The façade: creation, submission, the loop of plan, launch and reconcile.
#include "engine/engine.h"

#include <algorithm>
#include <random>

#include "base/check.h"
#include "engine/engine_state.h"
#include "engine/memory_plan.h"

namespace ashlar {
namespace {

constexpr int64_t kMaxChoices = 128;

Status check_tokens(std::span<const int32_t> tokens, int64_t below, std::string_view field) {
  for (int32_t token : tokens) {
    if (token < 0 || token >= below) {
      return fail(ErrorCode::kInvalidArgument, "{}: there is no token {}; ids are below {}", field,
                  token, below);
    }
  }
  return {};
}

Status check_range(int64_t value, int64_t low, int64_t high, std::string_view field) {
  if (value >= low && value <= high) return {};
  return fail(ErrorCode::kInvalidArgument, "{}: {} is out of range, {} to {}", field, value, low,
              high);
}

Status check_options(const EngineOptions& options, int64_t drafts) {
  EngineOptions copy = options;
  const OptionFields fields = copy.fields();
  for (const OptionField& field : fields.list()) {
    const auto* value = std::get_if<int64_t*>(&field.target);
    if (value == nullptr) continue;
    ASHLAR_TRY(check_range(**value, static_cast<int64_t>(*field.low),
                           static_cast<int64_t>(*field.high), field.name));
  }
  if (options.graphs != "auto" && options.graphs != "on" && options.graphs != "off") {
    return fail(ErrorCode::kInvalidArgument, "graphs: '{}' is none of auto, on, off",
                options.graphs);
  }
  if (!(options.memory_fraction >= 0 && options.memory_fraction <= 1)) {
    return fail(ErrorCode::kInvalidArgument, "memory_fraction: {} is out of range, 0 to 1",
                options.memory_fraction);
  }
  const int64_t least = options.max_batch * (1 + drafts);
  if (options.step_rows < least) {
    return fail(ErrorCode::kInvalidArgument,
                "step_rows: {} is too few for max_batch {} with {} drafts; at least {}",
                options.step_rows, options.max_batch, drafts, least);
  }
  return {};
}

int64_t random_seed() {
  std::random_device random;  // one a call: they are not shared between threads
  return static_cast<int64_t>((uint64_t{random()} << 32 | random()) >> 11);
}

}  // namespace

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::create(Model& model, Device& device, EngineText text,
                                               const EngineOptions& wished, Speculator* speculator,
                                               const MemoryPlan* plan_before) {
  const EngineOptions options = options_on(device.backend(), wished);
  const int64_t drafts = speculator != nullptr ? speculator->drafts() : 0;
  ASHLAR_TRY(check_options(options, drafts));
  const int64_t most = model.info().most_sequences;
  if (most > 0 && options.max_batch > most) {
    return fail(ErrorCode::kInvalidArgument,
                "max_batch: {} is more than the {} that a step can have on {}", options.max_batch,
                most, device.name());
  }
  Result<MemoryPlan> plan =
      plan_before != nullptr ? *plan_before : plan_memory(options, model, device, drafts);
  if (!plan) return tl::unexpected<Error>(plan.error());
  const EngineOptions effective = planned_options(options, *plan);

  SchedulerOptions scheduling;
  scheduling.pages = static_cast<int32_t>(effective.kv_positions / kPagePositions);
  scheduling.max_sequences = static_cast<int32_t>(effective.max_batch);
  scheduling.step_rows = effective.step_rows;
  scheduling.max_context = effective.max_context;
  scheduling.depth = effective.depth;
  scheduling.clear_pages = true;
  auto state = std::make_unique<State>(model, std::move(text), effective, *plan, scheduling);
  state->drafts = drafts;

  RunnerOptions running;
  running.pages = scheduling.pages;
  running.slots = effective.max_batch;
  running.step_rows = effective.step_rows;
  running.max_context = effective.max_context;
  running.depth = effective.depth;
  running.recorded = effective.graphs == "on";
  ASHLAR_ASSIGN(std::unique_ptr<DeviceRunner> runner,
                DeviceRunner::create(model, device, running, speculator));
  state->device_runner = runner.get();
  state->runner = std::move(runner);
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

// Reads only what never changes: see Engine::accept().
Status Engine::State::check_values(const Request& request) const {
  const int64_t decodable = model.info().decodable;
  ASHLAR_TRY(check_tokens(request.prompt, model.info().vocabulary, "prompt"));
  ASHLAR_TRY(check_tokens(request.stop_tokens, decodable, "stop_tokens"));
  ASHLAR_TRY(request.sampling.validate(decodable));
  ASHLAR_TRY(check_range(request.choices, 1, kMaxChoices, "n"));
  ASHLAR_TRY(check_range(request.max_tokens, 0, int64_t{1} << 40, "max_tokens"));
  return check_range(request.min_tokens, 0,
                     request.max_tokens > 0 ? request.max_tokens : options.max_context,
                     "min_tokens");
}

Result<std::unique_ptr<AcceptedRequest>> Engine::State::accept(Request request) {
  ASHLAR_TRY(check_values(request));
  auto accepted = std::make_unique<AcceptedRequest>();
  SequenceSpec& spec = accepted->spec;
  spec.prompt = std::move(request.prompt);
  // Without a limit the answer may fill the context, or the pages.
  const int64_t room = options.max_context - static_cast<int64_t>(spec.prompt.size());
  spec.stop.max_tokens = request.max_tokens > 0 ? request.max_tokens : std::max<int64_t>(room, 1);
  spec.stop.min_tokens = request.min_tokens;
  if (!request.ignore_eos) spec.stop.end_tokens = text.end_tokens;
  spec.stop.end_tokens.insert(spec.stop.end_tokens.end(), request.stop_tokens.begin(),
                              request.stop_tokens.end());
  spec.late = request.constraint != nullptr;
  spec.drafts = drafts;
  if (static_cast<int64_t>(spec.stop.end_tokens.size()) > kMaxEndTokens) {
    return fail(ErrorCode::kInvalidArgument,
                "stop_tokens: {} ids that end an answer, those of the model included; at most {}",
                spec.stop.end_tokens.size(), kMaxEndTokens);
  }
  ASHLAR_TRY(scheduler.check(spec));

  for (int64_t i = 0; i < request.choices; ++i) {
    EngineChoice choice;
    choice.choice = i;
    ASHLAR_ASSIGN(choice.text, OutputText::create(text.tokenizer, request.stop));
    if (spec.late) choice.constraint = request.constraint();
    accepted->choices.push_back(std::move(choice));
  }
  accepted->id = next_request.fetch_add(1, std::memory_order_relaxed);
  spec.request = accepted->id;
  for (EngineChoice& choice : accepted->choices) choice.request = accepted->id;
  EngineRequest& record = accepted->record;
  record.prompt_tokens = static_cast<int64_t>(spec.prompt.size());
  record.seed = request.sampling.seed ? *request.sampling.seed : random_seed();
  record.end_tokens = spec.stop.end_tokens;
  record.open_choices = request.choices;
  record.wish = std::move(request);
  return accepted;
}

void Engine::State::enqueue(AcceptedRequest accepted) {
  EngineRequest& record = accepted.record;
  record.first = scheduler.add(std::move(accepted.spec), record.open_choices);
  for (size_t i = 0; i < accepted.choices.size(); ++i) {
    choices.emplace(record.first + static_cast<int64_t>(i), std::move(accepted.choices[i]));
  }
  requests.emplace(accepted.id, std::move(record));
  if (failed) fail_all(failure);
}

Result<std::unique_ptr<AcceptedRequest>> Engine::accept(Request request) const {
  return state_->accept(std::move(request));
}

void Engine::enqueue(AcceptedRequest accepted) { state_->enqueue(std::move(accepted)); }

Result<RequestId> Engine::submit(Request request) {
  State& s = *state_;
  if (s.failed) return tl::unexpected<Error>(s.failure);
  const int64_t count = request.choices;
  ASHLAR_ASSIGN(std::unique_ptr<AcceptedRequest> accepted, s.accept(std::move(request)));
  ASHLAR_TRY(check_queue(s.scheduler.waiting_count(), count, s.options.max_waiting));
  const RequestId id = accepted->id;
  s.enqueue(std::move(*accepted));
  return id;
}

Status check_queue(int64_t waiting, int64_t more, int64_t max_waiting) {
  if (waiting + more <= max_waiting) return {};
  return fail(ErrorCode::kUnavailable,
              "the queue is full: {} answers wait, and {} more exceed max_waiting {}", waiting,
              more, max_waiting);
}

void Engine::cancel(RequestId id) { state_->cancels.push_back(id); }

void Engine::cancel_all() {
  for (const auto& [id, request] : state_->requests) state_->cancels.push_back(id);
}

Result<bool> Engine::step() {
  State& s = *state_;
  if (s.failed) return tl::unexpected<Error>(s.failure);
  s.apply_cancels();
  s.launch();
  const Status status = s.scheduler.in_flight() > 0 ? s.reconcile() : Status();
  if (!status) {
    s.fail_all(status.error());
    return tl::unexpected<Error>(status.error());
  }
  s.apply_cancels();
  return !s.scheduler.idle();
}

Status Engine::run_until_idle() {
  for (;;) {
    ASHLAR_ASSIGN(const bool more, step());
    if (!more) return {};
  }
}

void Engine::observe(StreamObserver* observer) { state_->device_runner->observe(observer); }

EngineStats Engine::stats() const {
  const State& s = *state_;
  const SchedulerCounts& counts = s.scheduler.counts();
  EngineStats stats;
  stats.pages_total = s.scheduler.pages().size();
  stats.pages_free = s.scheduler.pages().free_count();
  stats.running = s.scheduler.running_count();
  stats.waiting = s.scheduler.waiting_count();
  stats.steps = counts.steps;
  stats.prompt_rows = counts.prompt_rows;
  stats.decode_rows = counts.decode_rows;
  stats.preemptions = counts.preemptions;
  stats.discarded_rows = counts.discarded_rows;
  stats.finished = s.finished;
  stats.kv_bytes = s.device_runner->kv_bytes();
  stats.workspace_bytes = static_cast<int64_t>(s.device_runner->workspace().capacity_bytes());
  stats.ran_as = s.device_runner->counts();
  stats.workspace_peak_bytes = static_cast<int64_t>(s.device_runner->workspace().peak_bytes());
  return stats;
}

const EngineOptions& Engine::options() const { return state_->options; }
const MemoryPlan& Engine::memory_plan() const { return state_->plan; }

}  // namespace ashlar
