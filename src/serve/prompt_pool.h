// PromptPool: the threads that parse, render and encode, apart from event loops and from the
// engine.
//
// The queue is bounded. With two or more threads one takes short jobs only, so that a few prompts
// of megabytes do not hold up everyone else's. The threads run at a lower priority than the
// engine's: on a busy machine a long prompt should cost its own time, not that of the streams.
#ifndef ASHLAR_SERVE_PROMPT_POOL_H_
#define ASHLAR_SERVE_PROMPT_POOL_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"

namespace ashlar {

class PromptPool {
 public:
  static Result<std::unique_ptr<PromptPool>> start(int64_t threads, int64_t max_jobs);
  ~PromptPool();  // stop()

  // Any thread, never blocks. False when the queue is full or the pool has stopped: the job will
  // not run. Jobs must not throw.
  bool submit(std::function<void()> job, bool is_short);

  // Waits for the jobs that run; those that wait are dropped.
  void stop();

 private:
  PromptPool(int64_t max_jobs, bool lanes) : max_jobs_(max_jobs), lanes_(lanes) {}
  void work(bool short_only);

  const int64_t max_jobs_;
  const bool lanes_;  // short jobs wait apart
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> short_jobs_, long_jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ashlar

#endif  // ASHLAR_SERVE_PROMPT_POOL_H_
