// ThreadPool: a fixed set of worker threads that run the parts of one parallel loop at a time.
//
// The CPU backend owns one. Which thread runs which part never changes a result: kernels cut work
// by output, never by reduction, so the number of threads is not part of the numeric definition
// (DESIGN row rule, docs/numerics.md). One loop at a time: run() is called from one thread (the
// runner), and never from inside a part.
#ifndef ASHLAR_DEVICE_THREAD_POOL_H_
#define ASHLAR_DEVICE_THREAD_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>

namespace ashlar {

class ThreadPool {
 public:
  // threads >= 1 counts the caller: threads - 1 workers are started.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls part(i, thread) for every i in [0, parts) and returns when all are done; thread is in [0,
  // threads()) and tells which scratch to use. Parts are handed out in ascending order to whichever
  // thread is free.
  void run(int64_t parts, const std::function<void(int64_t part, int thread)>& part);

  // The same for parts that lie side by side in memory: each thread begins with a run of its own,
  // the same one in every call with as many parts, and takes it in ascending order, so that what it
  // reads is near what it read last. A thread that is done takes parts from the end of another's
  // run: cores are not equally fast when others use the machine.
  void run_near(int64_t parts, const std::function<void(int64_t part, int thread)>& part);

 private:
  struct State;
  void work(int thread);
  void start_and_wait();

  int threads_;
  std::unique_ptr<State> state_;
};

}  // namespace ashlar

#endif  // ASHLAR_DEVICE_THREAD_POOL_H_
