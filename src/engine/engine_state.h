// Engine::State: what the façade keeps beside the scheduler: the wish, the text and the constraint
// of each choice. Private to the engine's own files.
#ifndef ASHLAR_ENGINE_ENGINE_STATE_H_
#define ASHLAR_ENGINE_ENGINE_STATE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "engine/device_runner.h"
#include "engine/engine.h"
#include "engine/output.h"
#include "engine/scheduler.h"

namespace ashlar {

struct EngineChoice {
  RequestId request = 0;
  int64_t choice = 0;
  OutputText text;
  std::unique_ptr<TokenConstraint> constraint;
  int64_t output_tokens = 0;
  int64_t cached_tokens = 0;
};

struct EngineRequest {
  Request wish;
  int64_t seed = 0;
  std::vector<int32_t> end_tokens;  // of the model and the request
  SequenceId first = 0;             // choices have the ids first, first + 1, ...
  int64_t open_choices = 0;
};

struct Engine::State {
  State(Model& m, EngineText t, const EngineOptions& o, const SchedulerOptions& s)
      : model(m), text(std::move(t)), options(o), scheduler(s) {}

  Status validate(const Request& request) const;
  void apply_cancels();
  void launch();  // plans and launches up to the depth
  void set_slots(const StepPlan& plan);
  void try_sample();  // launches the sample part unless its masks wait for tokens in flight
  StepMasks make_masks(const StepPlan& plan);
  Status reconcile();
  void deliver(const Outcome& outcome, const SequenceResult& result);
  void finish_choice(SequenceId id, RequestEvent event);
  void end_choice(SequenceId id, FinishReason reason, Error error);
  void fail_all(const Error& error);
  RequestEvent event_of(const EngineChoice& choice) const;

  Model& model;
  EngineText text;
  EngineOptions options;
  Scheduler scheduler;
  std::unique_ptr<Runner> runner;
  DeviceRunner* device_runner = nullptr;  // the same, for its figures
  std::map<RequestId, EngineRequest> requests;
  std::map<SequenceId, EngineChoice> choices;
  std::vector<RequestId> cancels;
  std::deque<StepPlan> unsampled;  // forward part launched, sample part not: at most one
  std::random_device random;
  RequestId next_request = 0;
  int64_t drafts = 0;
  int64_t finished = 0;
  Error failure;  // of the device; with it nothing runs any more
  bool failed = false;
};

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_ENGINE_STATE_H_
