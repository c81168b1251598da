// Two queues under one mutex, which the threads own together with the pool.
#include "serve/prompt_pool.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace ashlar {

namespace {

constexpr int kNiceness = 10;

struct Job {
  std::function<void()> run;
  bool is_short = false;
};

// Linux keeps a niceness a thread. Without the right to change it the pool works all the same.
void lower_priority() {
  pthread_setname_np(pthread_self(), "prompts");
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
}

}  // namespace

struct PromptPool::State {
  State(int64_t max, bool apart) : max_jobs(max), lanes(apart) {}
  void work(bool short_only);

  const int64_t max_jobs;
  const bool lanes;  // short jobs wait apart
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> short_jobs, long_jobs;
  bool stopping = false;
  int64_t working = 0;  // threads that have not ended
  std::vector<std::thread> threads;
};

Result<std::unique_ptr<PromptPool>> PromptPool::start(int64_t threads, int64_t max_jobs) {
  const auto state = std::make_shared<State>(max_jobs, threads > 1);
  std::unique_ptr<PromptPool> pool(new PromptPool(state));
  try {
    for (int64_t i = 0; i < threads; ++i) {
      const std::lock_guard<std::mutex> lock(state->mutex);
      state->threads.emplace_back([state, i] { state->work(/*short_only=*/i == 1); });
      ++state->working;
    }
  } catch (const std::system_error& error) {
    return fail(ErrorCode::kResourceExhausted, "a prompt worker cannot be started: {}",
                error.what());
  }
  return pool;
}

PromptPool::~PromptPool() { stop(std::chrono::milliseconds(0)); }

bool PromptPool::submit(std::function<void()> job, bool is_short) {
  State& s = *state_;
  {
    const std::lock_guard<std::mutex> lock(s.mutex);
    const auto waiting = static_cast<int64_t>(s.short_jobs.size() + s.long_jobs.size());
    if (s.stopping || waiting >= s.max_jobs) return false;
    // One thread takes all in order.
    (is_short && s.lanes ? s.short_jobs : s.long_jobs).push_back({std::move(job), is_short});
  }
  // All: the one that wakes up might be the one for short jobs.
  s.changed.notify_all();
  return true;
}

void PromptPool::stop(std::chrono::milliseconds patience) {
  State& s = *state_;
  std::vector<std::thread> threads;
  bool ended = false;
  {
    std::unique_lock<std::mutex> lock(s.mutex);
    s.stopping = true;
    s.short_jobs.clear();
    s.long_jobs.clear();
    threads.swap(s.threads);
    s.changed.notify_all();
    ended = s.changed.wait_for(lock, patience, [&] { return s.working == 0; });
  }
  for (std::thread& thread : threads) {
    if (ended) {
      thread.join();
    } else {
      thread.detach();
    }
  }
}

void PromptPool::State::work(bool short_only) {
  lower_priority();
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    changed.wait(lock, [&] {
      return stopping || !short_jobs.empty() || (!short_only && !long_jobs.empty());
    });
    if (stopping) break;
    // Long ones first where both wait: short ones have a thread of their own.
    const bool take_long = !short_only && !long_jobs.empty();
    std::deque<Job>& queue = take_long ? long_jobs : short_jobs;
    Job job = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    job.run();
    job.run = nullptr;
    // A prompt of megabytes needs a hundred times its size for a while, in small pieces, which the
    // allocator would keep.
    if (!job.is_short) malloc_trim(0);
    lock.lock();
  }
  --working;
  changed.notify_all();
}

}  // namespace ashlar
