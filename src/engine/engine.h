// Engine: the façade. It owns requests, pages and slots, and turns submitted requests into events
// by planning steps and handing them to a Runner.
//
// Synchronous: submit() enqueues, step() plans, runs and reconciles on the calling thread, and
// events come out of the request's on_event. The same step() is what an engine thread
// (engine/engine_thread.h) loops over: with depth 2 it plans and launches a step before it
// reconciles the one before. One thread, except for accept().
#ifndef ASHLAR_ENGINE_ENGINE_H_
#define ASHLAR_ENGINE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "engine/engine_options.h"
#include "engine/recorded_step.h"
#include "engine/request.h"
#include "models/model.h"

namespace ashlar {

struct MemoryPlan;
class Speculator;
class Tokenizer;
struct AcceptedRequest;

struct EngineStats {
  int64_t pages_total = 0;
  int64_t pages_free = 0;
  int64_t running = 0;
  int64_t waiting = 0;  // answers, preempted ones included
  int64_t steps = 0;
  int64_t prompt_rows = 0;  // prompt positions computed
  int64_t decode_rows = 0;  // rows that continued an answer
  int64_t preemptions = 0;
  int64_t discarded_rows = 0;  // computed for a sequence that had stopped meanwhile
  int64_t finished = 0;        // choices, whatever the reason
  int64_t kv_bytes = 0;
  int64_t workspace_bytes = 0;
  int64_t workspace_peak_bytes = 0;
  StepCounts ran_as;  // recorded steps, and why others were not
};

// What the engine needs to know about the text side; without a tokenizer there is no text and no
// stop string.
struct EngineText {
  const Tokenizer* tokenizer = nullptr;
  std::vector<int32_t> end_tokens;  // ids that end generation
};

class Engine {
 public:
  // Allocates everything the engine will ever need on the device. model, device, tokenizer and
  // speculator must outlive it. plan: that was made of these options before the model was loaded;
  // null: it is made here.
  static Result<std::unique_ptr<Engine>> create(Model& model, Device& device, EngineText text,
                                                const EngineOptions& options,
                                                Speculator* speculator = nullptr,
                                                const MemoryPlan* plan = nullptr);
  ~Engine();

  // Checks the request and enqueues it. Refused at once: values out of range, a prompt longer than
  // the context, a request whose worst case cannot fit in the pages, a full queue.
  Result<RequestId> submit(Request request);

  // The two halves of submit(), for callers with a thread of their own. accept() makes all checks
  // but that of the queue and reads only what never changes: any thread may call it while another
  // one runs steps. enqueue() takes what this engine accepted; once the device has failed, each
  // choice gets its error event at once.
  Result<std::unique_ptr<AcceptedRequest>> accept(Request request) const;
  void enqueue(AcceptedRequest accepted);

  // Ends all choices of a request with kCancelled at the next step(). An unknown or finished id is
  // ignored.
  void cancel(RequestId id);
  void cancel_all();

  // One round: plan and launch up to the depth, reconcile the oldest step. False when nothing was
  // left to do. An error means that the device failed: every request has been told, and the engine
  // takes no more.
  Result<bool> step();
  Status run_until_idle();

  EngineStats stats() const;
  // Tells the observer (or nullptr) of every operation from now on; it must outlive the engine or
  // be taken back.
  void observe(StreamObserver* observer);
  const EngineOptions& options() const;  // the effective ones, nothing left at 0
  const MemoryPlan& memory_plan() const;

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_ENGINE_H_
