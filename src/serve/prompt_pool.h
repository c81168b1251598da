// PromptPool: the threads that parse, render and encode, apart from event loops and from the
// engine.
//
// The queue is bounded. With two or more threads one takes short jobs only, so that a few prompts
// of megabytes do not hold up everyone else's. The threads run at a lower priority than the
// engine's: on a busy machine a long prompt should cost its own time, not that of the streams.
// Nothing can interrupt a job; a pool that stops leaves one that takes too long to itself.
#ifndef ASHLAR_SERVE_PROMPT_POOL_H_
#define ASHLAR_SERVE_PROMPT_POOL_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/error.h"

namespace ashlar {

class PromptPool {
 public:
  static Result<std::unique_ptr<PromptPool>> start(int64_t threads, int64_t max_jobs);
  ~PromptPool();  // stop(), without patience

  // Any thread, never blocks. False when the queue is full or the pool has stopped: the job will
  // not run. Jobs must not throw, and must own what they use.
  bool submit(std::function<void()> job, bool is_short);

  // Jobs that wait are dropped. Waits for those that run; one that takes longer than `patience`
  // goes on after the pool is gone.
  void stop(std::chrono::milliseconds patience);

 private:
  struct State;
  explicit PromptPool(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;  // shared with the threads
};

}  // namespace ashlar

#endif  // ASHLAR_SERVE_PROMPT_POOL_H_
