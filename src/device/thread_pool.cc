// The pool's threads spin briefly before they sleep: a decode step is some hundred loops of 10 to
// 100 microseconds, and a futex wake costs as much as a short loop. Spinning is bounded (about 20
// microseconds), so an idle engine uses no CPU. Threads are not pinned to cores: on two cores it
// made no difference (2.6 ms a token either way), and a pinned thread waits where its core is
// taken.
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

// The parts that a thread has left, begin in the upper half of the word. Alone in its cache line.
struct alignas(64) Run {
  std::atomic<uint64_t> ends = 0;

  static uint64_t pack(int64_t begin, int64_t end) {
    return static_cast<uint64_t>(begin) << 32 | static_cast<uint64_t>(end);
  }
  void set(int64_t begin, int64_t end) { ends.store(pack(begin, end), std::memory_order_relaxed); }

  // A part from the front or the back; -1: none left.
  int64_t take(bool front) {
    uint64_t now = ends.load(std::memory_order_relaxed);
    while (true) {
      const auto begin = static_cast<int64_t>(now >> 32);
      const auto end = static_cast<int64_t>(now & 0xffffffffu);
      if (begin >= end) return -1;
      const uint64_t next = front ? pack(begin + 1, end) : pack(begin, end - 1);
      if (ends.compare_exchange_weak(now, next, std::memory_order_relaxed)) {
        return front ? begin : end - 1;
      }
    }
  }
};

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
  bool near = false;      // this loop is run_near()'s
  std::vector<Run> runs;  // by thread, for run_near()
  std::vector<std::thread> workers;

  explicit State(int threads) : runs(static_cast<size_t>(threads)) {}

  void take_parts(int thread) {
    if (near) return take_near_parts(thread);
    for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < parts;
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      (*part)(i, thread);
    }
  }

  void take_near_parts(int thread) {
    const size_t count = runs.size();
    for (size_t other = 0; other < count; ++other) {
      Run& run = runs[(static_cast<size_t>(thread) + other) % count];
      for (int64_t i = run.take(other == 0); i >= 0; i = run.take(other == 0)) (*part)(i, thread);
    }
  }
};

ThreadPool::ThreadPool(int threads) : threads_(threads), state_(std::make_unique<State>(threads)) {
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

void ThreadPool::run(int64_t parts, const std::function<void(int64_t part, int thread)>& part) {
  if (threads_ == 1 || parts <= 1) {
    for (int64_t i = 0; i < parts; ++i) part(i, 0);
    return;
  }
  State& s = *state_;
  s.parts = parts;
  s.part = &part;
  s.near = false;
  s.next.store(0, std::memory_order_relaxed);
  start_and_wait();
}

void ThreadPool::run_near(int64_t parts,
                          const std::function<void(int64_t part, int thread)>& part) {
  if (threads_ == 1 || parts <= 1) return run(parts, part);
  CHECK_LE(parts, int64_t{0xffffffff});
  State& s = *state_;
  s.part = &part;
  s.near = true;
  for (int t = 0; t < threads_; ++t) {
    s.runs[static_cast<size_t>(t)].set(parts * t / threads_, parts * (t + 1) / threads_);
  }
  start_and_wait();
}

void ThreadPool::start_and_wait() {
  State& s = *state_;
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
