// EngineThread: the one thread that runs an Engine, and the door to it for all other threads.
//
// Requests are checked on the thread that submits them and go through a bounded inbox, so whoever
// submits neither waits for a step nor learns of a refusal later. An engine with nothing to do
// sleeps. It does not know who its callers are: sockets, templates and tokenizers stay on their own
// threads.
#ifndef ASHLAR_ENGINE_ENGINE_THREAD_H_
#define ASHLAR_ENGINE_ENGINE_THREAD_H_

#include <chrono>
#include <memory>
#include <string>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/request.h"

namespace ashlar {

struct EngineThreadOptions {
  std::string name = "engine";  // as process viewers show it; at most 15 bytes
};

class EngineThread {
 public:
  // From here on the engine is called by its own thread only.
  static Result<std::unique_ptr<EngineThread>> start(std::unique_ptr<Engine> engine,
                                                     EngineThreadOptions options = {});
  ~EngineThread();  // stop()

  // Any thread; never waits for the engine. Whatever can be refused is refused here: values out of
  // range and a worst case beyond the pages (kInvalidArgument, kResourceExhausted), a prompt beyond
  // the context (kOutOfRange, with both lengths), a full queue (kUnavailable), an engine that
  // drains or has stopped (kUnavailable) or whose device failed (kDevice). A refused request gets
  // no event.
  //
  // on_event is called on the engine's thread and must not block; it may call submit(), cancel(),
  // stats() and drain(). The first events may come before submit() has returned: they carry the id.
  // Events of a choice come in order, the last one carries a finish reason, and each choice of an
  // accepted request gets one, also when the device fails or the engine is stopped.
  Result<RequestId> submit(Request request);

  // Any thread, never blocks. All open choices of the request end with kCancelled, soon; an unknown
  // or finished id is ignored.
  void cancel(RequestId id);

  // Any thread: as of the end of the last finished step. `waiting` includes the inbox.
  EngineStats stats() const;
  const EngineOptions& options() const;  // the effective ones
  // Any thread: "" or why the device failed. Then submit() refuses for good.
  std::string failure() const;

  // From now on submit() refuses; running and waiting requests go on.
  void drain();
  // Waits until every accepted request has had its last event. False when time runs out.
  bool wait_idle(std::chrono::milliseconds patience);
  // Cancels whatever is left, each choice with its last event, and joins the thread. Not from
  // on_event. Afterwards submit() refuses and cancel() has no effect.
  void stop();

 private:
  struct State;
  explicit EngineThread(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_ENGINE_THREAD_H_
