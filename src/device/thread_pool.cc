// The pool's threads spin briefly before they sleep: a decode step is some hundred loops of 10 to
// 100 microseconds, and a futex wake costs as much as a short loop. Spinning is bounded (about 20
// microseconds), so an idle engine uses no CPU.
#include "device/thread_pool.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"

namespace ashlar {

namespace {

constexpr int kSpins = 2000;

inline void pause() { __builtin_ia32_pause(); }

}  // namespace

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<uint64_t> generation = 0;
  std::atomic<bool> stopping = false;
  std::atomic<int64_t> next = 0;
  std::atomic<int> running = 0;  // workers that have not finished the current loop
  int64_t parts = 0;
  const std::function<void(int64_t, int)>* part = nullptr;
  std::vector<std::thread> workers;

  void take_parts(int thread) {
    for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < parts;
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      (*part)(i, thread);
    }
  }
};

ThreadPool::ThreadPool(int threads) : threads_(threads), state_(std::make_unique<State>()) {
  CHECK_GE(threads, 1);
  for (int t = 1; t < threads; ++t) {
    state_->workers.emplace_back([this, t] { work(t); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->generation.fetch_add(1);
  }
  state_->wake.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

void ThreadPool::run(int64_t parts, const std::function<void(int64_t, int)>& part) {
  State& s = *state_;
  if (threads_ == 1 || parts <= 1) {
    for (int64_t i = 0; i < parts; ++i) part(i, 0);
    return;
  }
  s.parts = parts;
  s.part = &part;
  s.next.store(0, std::memory_order_relaxed);
  s.running.store(threads_ - 1, std::memory_order_relaxed);
  {
    std::lock_guard lock(s.mutex);
    s.generation.fetch_add(1, std::memory_order_release);
  }
  s.wake.notify_all();
  s.take_parts(0);
  // Every worker must have left the loop before `part` and `parts` may change.
  for (int spin = 0; s.running.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin < kSpins) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::work(int thread) {
  State& s = *state_;
  uint64_t seen = 0;
  while (true) {
    int spin = 0;
    while (s.generation.load(std::memory_order_acquire) == seen && ++spin < kSpins) pause();
    if (s.generation.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(s.mutex);
      s.wake.wait(lock, [&] { return s.generation.load(std::memory_order_acquire) != seen; });
    }
    ++seen;
    if (s.stopping) return;
    s.take_parts(thread);
    s.running.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace ashlar
