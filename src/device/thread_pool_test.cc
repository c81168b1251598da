// Every part of every loop runs exactly once, whatever the number of threads and parts, also when
// loops follow each other without a pause (the case in which a late worker could take a part of the
// next loop).
#include "device/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace ashlar {
namespace {

TEST(ThreadPool, RunsEachPartOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int64_t parts : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(parts));
      pool.run(parts, [&](int64_t part, int thread) {
        ASSERT_GE(thread, 0);
        ASSERT_LT(thread, threads);
        seen[static_cast<size_t>(part)].fetch_add(1);
      });
      for (const auto& count : seen) ASSERT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadPool, RunsEachNearPartOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int64_t parts : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(parts));
      pool.run_near(parts,
                    [&](int64_t part, int) { seen[static_cast<size_t>(part)].fetch_add(1); });
      for (const auto& count : seen) ASSERT_EQ(count.load(), 1);
    }
  }
}

// A thread that sleeps keeps its first part; the others do the rest of its run.
TEST(ThreadPool, AFastThreadHelpsASlowOne) {
  ThreadPool pool(2);
  std::vector<int> by(100, -1);
  pool.run_near(100, [&](int64_t part, int thread) {
    if (part == 50) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    by[static_cast<size_t>(part)] = thread;
  });
  EXPECT_EQ(by[99], 0);
}

TEST(ThreadPool, LoopsThatFollowAtOnceDoNotMix) {
  ThreadPool pool(4);
  std::vector<int64_t> slots(64);
  for (int64_t loop = 0; loop < 5000; ++loop) {
    const int64_t parts = 1 + loop % 64;
    const auto part = [&](int64_t i, int) { slots[static_cast<size_t>(i)] = loop; };
    loop % 3 == 0 ? pool.run_near(parts, part) : pool.run(parts, part);
    for (int64_t i = 0; i < parts; ++i) ASSERT_EQ(slots[static_cast<size_t>(i)], loop);
  }
}

TEST(ThreadPool, WakesAfterSleeping) {
  ThreadPool pool(3);
  std::atomic<int> sum = 0;
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    pool.run(100, [&](int64_t, int) { sum.fetch_add(1); });
  }
  EXPECT_EQ(sum.load(), 300);
}

}  // namespace
}  // namespace ashlar
