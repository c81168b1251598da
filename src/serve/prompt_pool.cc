// Two queues under one mutex.
#include "serve/prompt_pool.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <system_error>

namespace ashlar {

namespace {

constexpr int kNiceness = 10;

// Linux keeps a niceness a thread. Without the right to change it the pool works all the same.
void lower_priority() {
  pthread_setname_np(pthread_self(), "prompts");
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
}

}  // namespace

Result<std::unique_ptr<PromptPool>> PromptPool::start(int64_t threads, int64_t max_jobs) {
  std::unique_ptr<PromptPool> pool(new PromptPool(max_jobs, threads > 1));
  PromptPool* const p = pool.get();
  try {
    for (int64_t i = 0; i < threads; ++i) {
      p->threads_.emplace_back([p, i] { p->work(/*short_only=*/i == 1); });
    }
  } catch (const std::system_error& error) {
    return fail(ErrorCode::kResourceExhausted, "a prompt worker cannot be started: {}",
                error.what());
  }
  return pool;
}

PromptPool::~PromptPool() { stop(); }

bool PromptPool::submit(std::function<void()> job, bool is_short) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto waiting = static_cast<int64_t>(short_jobs_.size() + long_jobs_.size());
    if (stopping_ || waiting >= max_jobs_) return false;
    // One thread takes all in order.
    (is_short && lanes_ ? short_jobs_ : long_jobs_).push_back(std::move(job));
  }
  // All: the one that wakes up might be the one for short jobs.
  changed_.notify_all();
  return true;
}

void PromptPool::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    short_jobs_.clear();
    long_jobs_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void PromptPool::work(bool short_only) {
  lower_priority();
  while (true) {
    std::function<void()> job;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] {
        return stopping_ || !short_jobs_.empty() || (!short_only && !long_jobs_.empty());
      });
      if (stopping_) return;
      // Long ones first where both wait: short ones have a thread of their own.
      const bool take_long = !short_only && !long_jobs_.empty();
      std::deque<std::function<void()>>& queue = take_long ? long_jobs_ : short_jobs_;
      job = std::move(queue.front());
      queue.pop_front();
    }
    job();
  }
}

}  // namespace ashlar
