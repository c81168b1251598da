// Engine::State: what the façade keeps beside the scheduler: the open requests and their choices.
// Private to the engine's own files.
//
// Of one thread, except for what accept() reads: model, text, options and the scheduler's options
// never change, and ids are drawn from an atomic counter.
#ifndef ASHLAR_ENGINE_ENGINE_STATE_H_
#define ASHLAR_ENGINE_ENGINE_STATE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "engine/accepted_request.h"
#include "engine/device_runner.h"
#include "engine/engine.h"
#include "engine/memory_plan.h"
#include "engine/scheduler.h"

namespace ashlar {

// Whether `more` answers may join those that wait.
Status check_queue(int64_t waiting, int64_t more, int64_t max_waiting);

struct Engine::State {
  State(Model& m, EngineText t, const EngineOptions& o, const MemoryPlan& p,
        const SchedulerOptions& s)
      : model(m), text(std::move(t)), options(o), plan(p), scheduler(s) {}

  Status check_values(const Request& request) const;
  Result<std::unique_ptr<AcceptedRequest>> accept(Request request);
  void enqueue(AcceptedRequest accepted);
  void apply_cancels();
  void launch();  // plans and launches up to the depth
  void set_slots(const StepPlan& plan);
  void try_sample();  // launches the sample part unless its masks wait for tokens in flight
  StepMasks make_masks(const StepPlan& plan);
  Status reconcile();
  void explain_failures(StepResult& result);
  void deliver(const Outcome& outcome, const SequenceResult& result);
  void finish_choice(SequenceId id, RequestEvent event);
  void end_choice(SequenceId id, FinishReason reason, Error error);
  void fail_all(const Error& error);
  RequestEvent event_of(const EngineChoice& choice) const;

  Model& model;
  EngineText text;
  EngineOptions options;
  MemoryPlan plan;
  Scheduler scheduler;
  std::unique_ptr<Runner> runner;
  DeviceRunner* device_runner = nullptr;  // the same, for its figures
  std::map<RequestId, EngineRequest> requests;
  std::map<SequenceId, EngineChoice> choices;
  std::vector<RequestId> cancels;
  std::deque<StepPlan> unsampled;  // forward part launched, sample part not: at most one
  std::atomic<RequestId> next_request = 0;
  int64_t drafts = 0;
  int64_t finished = 0;
  Error failure;  // of the device; with it nothing runs any more
  bool failed = false;
};

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_ENGINE_STATE_H_
