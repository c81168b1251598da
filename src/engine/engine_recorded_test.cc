// Recorded steps on the toy model: whatever a request asks for, replayed steps and tokens chosen by
// operations give the bits of direct steps; and who was not replayed is counted with its reason.
#include <gtest/gtest.h>

#include "testing/engine_answers.h"
#include "testing/late_device.h"
#include "testing/storm.h"

namespace ashlar {
namespace {

EngineOptions recorded(EngineOptions options) {
  options.graphs = "on";
  return options;
}

int64_t replayed(const StepCounts& counts) {
  int64_t sum = 0;
  for (const RecordedCount& c : counts.recorded) sum += c.steps;
  return sum;
}

int64_t direct(const StepCounts& counts, DirectReason reason) {
  return counts.direct[static_cast<size_t>(reason)];
}

TEST(EngineRecorded, NoBitChanges) {
  const Answers wanted = alone();
  EngineStats stats;
  expect_equal(run({recorded(options_of(1, 512, 4096, 1)), nullptr, false}, wishes(), &stats),
               wanted, "alone");
  EXPECT_GT(replayed(stats.ran_as), stats.steps * 8 / 10);
  for (int64_t depth : {1, 2}) {
    for (int64_t sequences : {3, 5, 16}) {
      expect_equal(
          run({recorded(options_of(sequences, 512, 4096, depth)), nullptr, true}, wishes(), &stats),
          wanted, "crowd");
      EXPECT_GT(replayed(stats.ran_as), 0);
    }
    expect_equal(run({recorded(options_of(5, 7, 4096, depth)), nullptr, true}, wishes()), wanted,
                 "chunks of 7");
    expect_equal(run({recorded(options_of(8, 64, 320, depth)), nullptr, true}, wishes(), &stats),
                 wanted, "tight");
    EXPECT_GT(stats.preemptions, 0) << "the pages were not tight";
  }
}

TEST(EngineRecorded, DraftsChangeNoBitAndAreReplayed) {
  const Answers wanted = alone();
  for (int64_t depth : {1, 2}) {
    for (int64_t positions : {4096, 320}) {
      ReplaySpeculator speculator(wanted, wishes());
      EngineStats stats;
      expect_equal(
          run({recorded(options_of(8, 64, positions, depth)), &speculator, true}, wishes(), &stats),
          wanted, "drafts");
      int64_t with_drafts = 0;
      for (const RecordedCount& c : stats.ran_as.recorded) {
        if (c.rows > c.sequences) with_drafts += c.steps;
      }
      EXPECT_GT(with_drafts, 0);
    }
  }
}

TEST(EngineRecorded, MasksAndBiasesHold) {
  std::vector<Request> requests = wishes();
  for (size_t i = 0; i < requests.size(); ++i) {
    if (i % 2 == 0) {
      requests[i].constraint = [] { return std::make_unique<AlternatingConstraint>(); };
    }
    if (i % 3 == 0) {
      requests[i].sampling.logit_bias = {{7, 3.5f}, {9, -100.0f}, {7, 1.0f}, {kDecodable - 1, 2}};
    }
    if (i % 4 == 1) requests[i].stop_tokens = {11, 12};
  }
  const Answers wanted = run({options_of(8, 64, 4096, 1), nullptr, true}, requests);
  for (int64_t depth : {1, 2}) {
    expect_equal(run({recorded(options_of(8, 64, 4096, depth)), nullptr, true}, requests), wanted,
                 "masks");
  }
}

// The slot of a failed sequence, its pages and the recordings serve others as if nothing had been.
TEST(EngineRecorded, ARowThatIsNotFiniteFailsAloneAndNamesItsLayer) {
  std::vector<Request> requests = wishes();
  const Answers wanted = alone();
  ToyModel model(kVocabulary, kDecodable, kContext);
  model.set_poison(71);  // in no prompt; a row of request 2 gets it
  requests[2].prompt[20] = 71;
  const auto device = new_cpu_device(1);
  auto engine =
      Engine::create(model, *device, {nullptr, {kEnd}}, recorded(options_of(4, 64, 1024, 2)));
  ASSERT_TRUE(engine) << engine.error().message;
  for (int64_t round = 0; round < 2; ++round) {
    Answers answers;
    for (size_t i = 0; i < requests.size(); ++i) {
      Request r = requests[i];
      r.on_event = [&answers, i](const RequestEvent& e) {
        Answer& a = answers[{static_cast<int64_t>(i), e.choice}];
        a.tokens.insert(a.tokens.end(), e.tokens.begin(), e.tokens.end());
        a.finish = e.finish;
        a.error = e.error;
      };
      ASSERT_TRUE((*engine)->submit(std::move(r)));
    }
    ASSERT_TRUE((*engine)->run_until_idle());
    for (const auto& [key, a] : answers) {
      if (key.first == 2) {
        EXPECT_EQ(a.error.message,
                  "the logits after position 31 are not finite; the first such value is in "
                  "layers.0");
        continue;
      }
      const auto& tokens = wanted.at(key).tokens;
      if (std::any_of(tokens.begin(), tokens.end(), [](const auto& t) { return t.token == 71; })) {
        continue;
      }
      EXPECT_EQ(a.tokens, tokens) << "request " << key.first;
    }
  }
}

TEST(EngineRecorded, WhatRanDirectlyIsCountedWithItsReason) {
  EngineStats stats;
  Request r;
  r.prompt = prompt_of(100, 1);
  r.max_tokens = 20;
  r.ignore_eos = true;
  run({recorded(options_of(2, 32, 512, 1)), nullptr, true}, {r}, &stats);
  EXPECT_EQ(stats.ran_as.recorded.size(), 2u);
  EXPECT_EQ(stats.ran_as.recorded[0], (RecordedCount{1, 1, 19}));
  EXPECT_EQ(stats.ran_as.recorded[1], (RecordedCount{2, 2, 0}));
  EXPECT_EQ(direct(stats.ran_as, DirectReason::kPromptRows), 4) << "100 rows in chunks of 32";
  run({options_of(2, 32, 512, 1), nullptr, true}, {r}, &stats);
  EXPECT_TRUE(stats.ran_as.recorded.empty());
  EXPECT_EQ(direct(stats.ran_as, DirectReason::kNotRecording), 23);
}

// Nothing runs before it must: inputs of step n + 1 are written while those of step n were not read
// yet, and no token of step n is known to the host.
TEST(EngineRecorded, ADeviceThatLagsBehindChangesNoBit) {
  std::vector<Request> requests = wishes();
  requests[3].constraint = [] { return std::make_unique<AlternatingConstraint>(); };
  const Answers wanted = run({options_of(1, 512, 4096, 1), nullptr, false}, requests);
  for (int64_t depth : {1, 2}) {
    for (int64_t positions : {4096, 320}) {
      LateDevice late(2);
      EngineStats stats;
      expect_equal(run({recorded(options_of(8, 64, positions, depth)), nullptr, true, &late},
                       requests, &stats),
                   wanted, "late");
      EXPECT_EQ(stats.preemptions > 0, positions == 320);
    }
  }
}

TEST(EngineRecorded, AStepThatHangsIsNoticed) {
  ToyModel model(kVocabulary, kDecodable, kContext);
  LateDevice late(1);
  auto engine =
      Engine::create(model, late, {nullptr, {kEnd}}, recorded(options_of(4, 64, 1024, 2)));
  ASSERT_TRUE(engine) << engine.error().message;
  std::string told;
  Request r;
  r.prompt = prompt_of(10, 1);
  r.on_event = [&](const RequestEvent& e) { told = e.error.message; };
  ASSERT_TRUE((*engine)->submit(std::move(r)));
  late.hang();
  const auto begin = std::chrono::steady_clock::now();
  const auto more = (*engine)->step();
  ASSERT_FALSE(more);
  EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
  EXPECT_NE(more.error().message.find("step 0 (10 rows) has not ended on late cpu"),
            std::string::npos)
      << more.error().message;
  EXPECT_EQ(told, more.error().message);
}

TEST(EngineRecorded, AStormChangesNoBit) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    ToyModel model(80, kDecodable, 400);
    const auto device = new_cpu_device(2);
    StormOptions options;
    options.seed = seed;
    options.crowd = recorded(options_of(10, seed < 3 ? 64 : 13, 416, 1 + seed % 2));
    const StormReport report = storm(model, *device, {nullptr, {kEnd}}, options);
    EXPECT_EQ(report.problem, "") << "seed " << seed;
    EXPECT_GT(replayed(report.stats.ran_as), 0);
  }
}

}  // namespace
}  // namespace ashlar
