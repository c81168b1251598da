// The pool's end: what runs is waited for, up to a bound, and then left alone with what it owns.
#include "serve/prompt_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

namespace ashlar {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

TEST(PromptPool, StopWaitsForAShortJob) {
  auto pool = *PromptPool::start(2, 8);
  auto done = std::make_shared<std::atomic<bool>>(false);
  std::promise<void> begun;
  pool->submit(
      [&begun, done] {
        begun.set_value();
        std::this_thread::sleep_for(milliseconds(20));
        *done = true;
      },
      /*is_short=*/false);
  begun.get_future().wait();
  pool->stop(milliseconds(60'000));
  EXPECT_TRUE(*done);
  EXPECT_FALSE(pool->submit([] {}, true));
}

TEST(PromptPool, StopLeavesAJobThatDoesNotEnd) {
  struct Gate {
    std::promise<void> begun, open, ended;
    std::atomic<bool> dropped = true;
  };
  auto gate = std::make_shared<Gate>();
  auto pool = *PromptPool::start(1, 8);
  pool->submit(
      [gate] {
        gate->begun.set_value();
        gate->open.get_future().wait();
        gate->ended.set_value();
      },
      /*is_short=*/false);
  pool->submit([gate] { gate->dropped = false; }, /*is_short=*/true);
  gate->begun.get_future().wait();
  const Clock::time_point start = Clock::now();
  pool->stop(milliseconds(10));
  pool.reset();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(30));
  gate->open.set_value();
  gate->ended.get_future().wait();  // with the pool gone
  EXPECT_TRUE(gate->dropped);
}

}  // namespace
}  // namespace ashlar
