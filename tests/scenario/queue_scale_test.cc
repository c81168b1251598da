// Ten thousand requests in the queue cost the running ones nothing: a step is planned in the same
// time as with an empty queue, and those that wait are cancelled one by one in no time.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "engine/scheduler.h"

namespace ashlar {
namespace {

constexpr int64_t kRunning = 8;
constexpr int64_t kWaiting = 10000;

using Clock = std::chrono::steady_clock;

double microseconds(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

SequenceSpec spec_of(RequestId request, int64_t prompt, int64_t tokens) {
  SequenceSpec spec;
  spec.request = request;
  spec.prompt.assign(static_cast<size_t>(prompt), 1);
  spec.stop.max_tokens = tokens;
  return spec;
}

// Pages that are always short: each sequence grows into a page every 32 steps, and the last ones
// are preempted again and again.
Scheduler crowded(int64_t waiting) {
  SchedulerOptions options;
  options.pages = 100;
  options.max_sequences = kRunning;
  options.step_rows = 512;
  options.max_context = 1280;
  Scheduler scheduler(options);
  for (int64_t i = 0; i < kRunning + waiting; ++i) {
    scheduler.add(spec_of(i, 100, 1000), i < kRunning ? 1 : 2);
  }
  return scheduler;
}

// Median time of planning a step and of taking its result.
std::pair<double, double> step_times(Scheduler& scheduler, int64_t steps) {
  std::vector<double> plans;
  std::vector<double> results;
  for (int64_t i = 0; i < steps; ++i) {
    StepPlan plan;
    plans.push_back(microseconds([&] { plan = scheduler.plan(); }));
    StepResult result;
    result.step = plan.step;
    for (const SequenceRows& rows : plan.rows) {
      if (rows.wants_logits) result.rows.push_back({rows.sequence, {{7, 0, {}}}, {}});
    }
    results.push_back(microseconds([&] { scheduler.reconcile(result); }));
  }
  return {median(plans), median(results)};
}

TEST(QueueScale, TenThousandWaitingRequestsCostAStepNothing) {
  Scheduler few = crowded(kRunning);
  Scheduler many = crowded(kWaiting);
  const auto [plan_few, result_few] = step_times(few, 400);
  const auto [plan_many, result_many] = step_times(many, 400);
  EXPECT_GT(many.counts().preemptions, 0) << "the pages were not short";
  printf(
      "a step: planned in %.1f us with %ld waiting, %.1f us with %ld; taken in %.1f and %.1f us\n",
      plan_few, few.waiting_count(), plan_many, many.waiting_count(), result_few, result_many);
  // A sanitizer and a busy machine may take ten times as long; a walk over the queue would take a
  // hundred times as long.
  EXPECT_LT(plan_many, 10 * plan_few + 20);
  EXPECT_LT(result_many, 10 * result_few + 20);
}

TEST(QueueScale, WaitingRequestsAreCancelledOneByOne) {
  Scheduler scheduler = crowded(kWaiting);
  step_times(scheduler, 40);
  const double add = microseconds([&] { scheduler.add(spec_of(99999, 100, 1000)); });
  // From the middle of the queue, from its end and from its start.
  const double total = microseconds([&] {
    for (SequenceId id = kWaiting; id < kRunning + 2 * kWaiting + 1; ++id) scheduler.finish(id);
    for (SequenceId id = kWaiting - 1; id >= kRunning; --id) scheduler.finish(id);
  });
  printf("added in %.1f us, cancelled in %.2f us each\n", add, total / (2 * kWaiting));
  EXPECT_EQ(scheduler.waiting_count() + scheduler.running_count(), kRunning);
  EXPECT_EQ(scheduler.inconsistency(), "");
  EXPECT_LT(total / (2 * kWaiting), 100);
}

}  // namespace
}  // namespace ashlar
