// The inbox, the loop of the engine's thread and how both end. The mutex guards what both sides
// see and is never held while the engine works or an event is delivered.
#include "engine/engine_thread.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/engine_state.h"

namespace ashlar {

struct EngineThread::State {
  State(std::unique_ptr<Engine> e, EngineThreadOptions o)
      : engine(std::move(e)), name(std::move(o.name)), engine_options(engine->options()) {}

  void loop();
  bool take();  // moves what others left to the engine; false when the thread should end
  void publish(bool idle);
  Status check_open(int64_t choices) const;  // with the mutex held

  // The engine thread's own, but for accept().
  std::unique_ptr<Engine> engine;
  std::string name;
  const EngineOptions engine_options;
  bool busy = false;

  mutable std::mutex mutex;
  std::condition_variable wake;   // for the engine thread: something was left for it
  std::condition_variable quiet;  // for wait_idle()
  std::deque<AcceptedRequest> inbox;
  std::vector<RequestId> cancels;
  int64_t inbox_choices = 0;
  EngineStats stats;  // as published; waiting without the inbox
  bool idle = true;   // the engine itself
  bool draining = false;
  bool stopping = false;
  bool failed = false;
  Error failure;

  std::mutex join_mutex;
  std::thread thread;
  std::thread::id thread_id;
};

EngineThread::EngineThread(std::unique_ptr<State> state) : state_(std::move(state)) {}
EngineThread::~EngineThread() { stop(); }

Result<std::unique_ptr<EngineThread>> EngineThread::start(std::unique_ptr<Engine> engine,
                                                          EngineThreadOptions options) {
  auto state = std::make_unique<State>(std::move(engine), std::move(options));
  state->stats = state->engine->stats();
  State* const s = state.get();
  try {
    s->thread = std::thread([s] { s->loop(); });
  } catch (const std::system_error& e) {
    return fail(ErrorCode::kResourceExhausted, "the engine's thread cannot be started: {}",
                e.what());
  }
  s->thread_id = s->thread.get_id();
  return std::unique_ptr<EngineThread>(new EngineThread(std::move(state)));
}

Status EngineThread::State::check_open(int64_t choices) const {
  if (failed) return tl::unexpected<Error>(failure);
  if (stopping || draining) {
    return fail(ErrorCode::kUnavailable, "the engine is stopping and takes no more requests");
  }
  return check_queue(stats.waiting + inbox_choices, choices, engine_options.max_waiting);
}

Result<RequestId> EngineThread::submit(Request request) {
  State& s = *state_;
  const int64_t choices = request.choices;
  {
    // Before the work of accepting: a crowd that will be refused costs little.
    const std::lock_guard<std::mutex> lock(s.mutex);
    ASHLAR_TRY(s.check_open(0));
  }
  ASHLAR_ASSIGN(std::unique_ptr<AcceptedRequest> accepted, s.engine->accept(std::move(request)));
  const RequestId id = accepted->id;
  {
    const std::lock_guard<std::mutex> lock(s.mutex);
    ASHLAR_TRY(s.check_open(choices));
    s.inbox.push_back(std::move(*accepted));
    s.inbox_choices += choices;
  }
  s.wake.notify_one();
  return id;
}

void EngineThread::cancel(RequestId id) {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->idle && state_->inbox.empty()) return;  // nothing is left that it could end
    state_->cancels.push_back(id);
  }
  state_->wake.notify_one();
}

EngineStats EngineThread::stats() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  EngineStats stats = state_->stats;
  stats.waiting += state_->inbox_choices;
  return stats;
}

const EngineOptions& EngineThread::options() const { return state_->engine_options; }

std::string EngineThread::failure() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->failed ? state_->failure.message : "";
}

void EngineThread::drain() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->draining = true;
}

bool EngineThread::wait_idle(std::chrono::milliseconds patience) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  return state_->quiet.wait_for(lock, patience,
                                [&] { return state_->idle && state_->inbox.empty(); });
}

void EngineThread::stop() {
  CHECK(state_->thread_id != std::this_thread::get_id());
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_one();
  const std::lock_guard<std::mutex> lock(state_->join_mutex);
  if (state_->thread.joinable()) state_->thread.join();
}

void EngineThread::State::loop() {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  while (take()) {
    const Result<bool> more = engine->step();
    busy = more.value_or(false);
    if (!more) {
      // Whatever is in the inbox, and comes until the mutex is held, meets an engine that failed.
      const std::lock_guard<std::mutex> lock(mutex);
      failed = true;
      failure = more.error();
    }
    publish(!busy);
  }
}

bool EngineThread::State::take() {
  std::deque<AcceptedRequest> requests;
  std::vector<RequestId> ids;
  bool cancel_all = false;
  {
    std::unique_lock<std::mutex> lock(mutex);
    wake.wait(lock, [&] { return busy || stopping || !inbox.empty() || !cancels.empty(); });
    requests.swap(inbox);
    ids.swap(cancels);
    stats.waiting += std::exchange(inbox_choices, 0);
    cancel_all = stopping;
    if (stopping && requests.empty() && !busy) return false;
    idle = false;
  }
  // An event may come at once when the device has failed, so no mutex is held.
  for (AcceptedRequest& request : requests) engine->enqueue(std::move(request));
  for (RequestId id : ids) engine->cancel(id);
  if (cancel_all) engine->cancel_all();
  return true;
}

void EngineThread::State::publish(bool now_idle) {
  const std::lock_guard<std::mutex> lock(mutex);
  stats = engine->stats();
  idle = now_idle;
  if (idle) quiet.notify_all();
}

}  // namespace ashlar
