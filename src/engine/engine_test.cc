// The engine on a toy model whose tokens change with any mistake of the bookkeeping: alone, in a
// crowd, in chunks, preempted, one and two steps in flight, with and without drafts, the answers
// are the same bit for bit.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include "testing/character_tokenizer.h"
#include "testing/engine_answers.h"

namespace ashlar {
namespace {

TEST(Engine, AnswersAreWhatTheyShouldBe) {
  const Answers answers = alone();
  ASSERT_EQ(answers.size(), 12u);
  bool ended = false;
  for (const auto& [key, a] : answers) {
    const Request wish = wishes()[key.first];
    ASSERT_TRUE(a.finish == FinishReason::kStop || a.finish == FinishReason::kLength);
    const bool stopped = a.finish == FinishReason::kStop;
    ended = ended || stopped;
    EXPECT_EQ(a.tokens.back().token == kEnd, stopped);
    if (!stopped) {
      EXPECT_EQ(static_cast<int64_t>(a.tokens.size()), wish.max_tokens);
    }
    EXPECT_GT(static_cast<int64_t>(a.tokens.size()), stopped ? wish.min_tokens : 0);
    EXPECT_EQ(a.usage.output_tokens, static_cast<int64_t>(a.tokens.size()));
    EXPECT_EQ(a.usage.prompt_tokens, static_cast<int64_t>(wish.prompt.size()));
    EXPECT_EQ(a.usage.cached_tokens, key.second == 0 ? 0 : a.usage.prompt_tokens - 1);
    for (const GeneratedToken& t : a.tokens) {
      EXPECT_LT(t.token, kDecodable) << "a pad column was chosen";
      EXPECT_EQ(static_cast<int64_t>(t.top.size()), *wish.sampling.logprobs);
      EXPECT_LT(t.logprob, 0);
    }
  }
  EXPECT_TRUE(ended) << "no answer ended by a token: the rule is untested";
  EXPECT_NE(answers.at({1, 0}).tokens, answers.at({1, 1}).tokens)
      << "choices draw different numbers";
}

TEST(Engine, CrowdsChunksAndDepthsChangeNoBit) {
  const Answers wanted = alone();
  expect_equal(run({options_of(1, 1, 4096, 1), nullptr, false}, wishes()), wanted, "rows of 1");
  expect_equal(run({options_of(1, 7, 4096, 2), nullptr, false}, wishes()), wanted,
               "chunks of 7, depth 2");
  expect_equal(run({options_of(16, 512, 4096, 1), nullptr, true}, wishes()), wanted, "crowd");
  expect_equal(run({options_of(16, 512, 4096, 2), nullptr, true}, wishes()), wanted,
               "crowd, depth 2");
  expect_equal(run({options_of(5, 7, 4096, 1), nullptr, true}, wishes()), wanted,
               "5 at once, 7 rows");
  expect_equal(run({options_of(5, 64, 4096, 2), nullptr, true}, wishes()), wanted,
               "5 at once, 64 rows, depth 2");
}

TEST(Engine, PreemptionChangesNoBit) {
  const Answers wanted = alone();
  for (int64_t depth : {1, 2}) {
    EngineStats stats;
    expect_equal(run({options_of(8, 64, 320, depth), nullptr, true}, wishes(), &stats), wanted,
                 "tight");
    EXPECT_GT(stats.preemptions, 0) << "the pages were not tight";
  }
}

TEST(Engine, DraftsChangeNoBitAndSaveSteps) {
  const Answers wanted = alone();
  EngineStats plain;
  EngineStats drafted;
  run({options_of(1, 512, 4096, 1), nullptr, false}, wishes(), &plain);
  for (int64_t depth : {1, 2}) {
    for (int64_t positions : {4096, 320}) {
      ReplaySpeculator speculator(wanted, wishes());
      expect_equal(run({options_of(8, 64, positions, depth), &speculator, true}, wishes()), wanted,
                   "drafts");
    }
  }
  ReplaySpeculator speculator(wanted, wishes());
  expect_equal(run({options_of(1, 512, 4096, 1), &speculator, false}, wishes(), &drafted), wanted,
               "alone");
  EXPECT_LT(drafted.steps, plain.steps * 6 / 10) << "hardly a draft was accepted";
}

TEST(Engine, DepthTwoDiscardsWhatAStoppedSequenceStillComputed) {
  EngineStats one;
  EngineStats two;
  run({options_of(8, 512, 4096, 1), nullptr, true}, wishes(), &one);
  run({options_of(8, 512, 4096, 2), nullptr, true}, wishes(), &two);
  EXPECT_EQ(one.discarded_rows, 0);
  EXPECT_GT(two.discarded_rows, 0) << "no sequence stopped with a step in flight";
}

TEST(Engine, ARowThatIsNotFiniteFailsItsRequestOnly) {
  std::vector<Request> requests = wishes();
  const Answers wanted = alone();
  ToyModel model(kVocabulary, kDecodable, kContext);
  model.set_poison(71);  // in no prompt; request 2 gets it in the middle
  requests[2].prompt[20] = 71;
  const auto device = new_cpu_device(1);
  for (int64_t depth : {1, 2}) {
    auto engine = Engine::create(model, *device, {nullptr, {kEnd}}, options_of(4, 64, 1024, depth));
    ASSERT_TRUE(engine);
    Answers answers;
    // Twice, so that the second round gets the pages of the failed request.
    for (int64_t round = 0; round < 2; ++round) {
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
      for (auto& [key, a] : answers) {
        if (key.first == 2) {
          EXPECT_EQ(a.finish, FinishReason::kError);
          EXPECT_EQ(
              a.error.message,
              "the logits after position 31 are not finite; the first such value is in layers.0");
          EXPECT_TRUE(a.tokens.empty());
          continue;
        }
        const Answer& solo = wanted.at(key);
        bool meets_poison = false;
        for (const GeneratedToken& t : solo.tokens) meets_poison = meets_poison || t.token == 71;
        if (meets_poison) continue;
        EXPECT_EQ(a.tokens, solo.tokens) << "request " << key.first;
        EXPECT_EQ(a.finish, solo.finish);
      }
      answers.clear();
    }
    EXPECT_EQ((*engine)->stats().pages_free, (*engine)->stats().pages_total);
  }
}

TEST(Engine, CancelAtEveryTokenGivesPagesBack) {
  for (int64_t depth : {1, 2}) {
    for (int64_t at = 0; at < 12; ++at) {
      ToyModel model(kVocabulary, kDecodable, kContext);
      const auto device = new_cpu_device(1);
      auto engine = Engine::create(model, *device, {nullptr, {}}, options_of(4, 16, 512, depth));
      ASSERT_TRUE(engine);
      Request r;
      r.prompt = prompt_of(40, 1);
      r.max_tokens = 12;
      r.choices = 2;
      int64_t last_events = 0;
      int64_t tokens = 0;
      r.on_event = [&](const RequestEvent& e) {
        tokens += static_cast<int64_t>(e.tokens.size());
        if (e.finish != FinishReason::kNone) ++last_events;
        if (tokens == at + 1) (*engine)->cancel(e.request);
      };
      ASSERT_TRUE((*engine)->submit(std::move(r)));
      ASSERT_TRUE((*engine)->run_until_idle());
      EXPECT_EQ(last_events, 2);
      EXPECT_EQ((*engine)->stats().pages_free, (*engine)->stats().pages_total);
    }
  }
}

TEST(Engine, RefusesByName) {
  ToyModel model(kVocabulary, kDecodable, kContext);
  const auto device = new_cpu_device(1);
  EngineOptions options = options_of(2, 16, 0, 2);
  options.kv_positions = 128;
  options.max_waiting = 3;
  auto engine = Engine::create(model, *device, {nullptr, {kEnd}}, options);
  ASSERT_TRUE(engine);
  const auto refusal = [&](auto change) {
    Request r;
    r.prompt = prompt_of(10, 0);
    change(r);
    const auto id = (*engine)->submit(std::move(r));
    return id ? std::string("accepted") : id.error().message;
  };
  EXPECT_EQ(refusal([](Request& r) { r.prompt.clear(); }), "the prompt is empty");
  EXPECT_EQ(refusal([](Request& r) { r.prompt = prompt_of(128, 0); }),
            "the prompt has 128 tokens, but the context holds 128, the answer included");
  EXPECT_EQ(refusal([](Request& r) { r.prompt[3] = 80; }),
            "prompt: there is no token 80; ids are below 80");
  EXPECT_EQ(refusal([](Request& r) { r.stop_tokens = {73}; }),
            "stop_tokens: there is no token 73; ids are below 73");
  EXPECT_EQ(refusal([](Request& r) { r.sampling.temperature = -1; }),
            "temperature: -1 is out of range, 0 to 100");
  EXPECT_EQ(refusal([](Request& r) { r.sampling.top_p = 1.5; }),
            "top_p: 1.5 is out of range, 0 to 1");
  EXPECT_EQ(refusal([](Request& r) { r.sampling.logprobs = -1; }),
            "logprobs: -1 is out of range, 0 to 100");
  EXPECT_EQ(refusal([](Request& r) { r.sampling.logit_bias = {{90, 1}}; }),
            "logit_bias: there is no token 90; ids are below 73");
  EXPECT_EQ(refusal([](Request& r) { r.choices = 0; }), "n: 0 is out of range, 1 to 128");
  EXPECT_EQ(refusal([](Request& r) { r.max_tokens = -1; }),
            "max_tokens: -1 is out of range, 0 to 1099511627776");
  EXPECT_EQ(refusal([](Request& r) { r.max_tokens = 5, r.min_tokens = 6; }),
            "min_tokens: 6 is out of range, 0 to 5");
  EXPECT_EQ(refusal([](Request& r) { r.stop = {"x"}; }),
            "stop: stop strings need a tokenizer, and there is none");
  EXPECT_EQ(refusal([](Request& r) { r.choices = 4; }),
            "the queue is full: 0 answers wait, and 4 more exceed max_waiting 3");
  EXPECT_EQ((*engine)->stats().waiting, 0);

  EngineOptions wrong = options_of(8, 4, 0, 1);
  EXPECT_EQ(Engine::create(model, *device, {}, wrong).error().message,
            "step_rows: 4 is too few for max_batch 8 with 0 drafts; at least 8");
  model.set_most_sequences(7);
  EXPECT_EQ(Engine::create(model, *device, {}, options_of(8, 8, 0, 1)).error().message,
            "max_batch: 8 is more than the 7 that a step can have on " + device->name());
  EXPECT_TRUE(Engine::create(model, *device, {}, options_of(7, 8, 0, 1)).has_value());
  model.set_most_sequences(0);
  wrong = options_of(1, 4, 64, 1);
  wrong.max_context = 128;
  EXPECT_EQ(Engine::create(model, *device, {}, wrong).error().message,
            "kv_positions: 64 is less than max_context 128");
  wrong.max_context = 500;
  EXPECT_EQ(Engine::create(model, *device, {}, wrong).error().message,
            "max_context: 500 is more than the 400 positions of the model");
}

TEST(EngineOptions, WhatIsLeftOpenDependsOnTheBackend) {
  const EngineOptions cpu = options_on(Backend::kCpu, {});
  const EngineOptions gpu = options_on(Backend::kCuda, {});
  EXPECT_EQ(cpu.step_rows, 512);
  EXPECT_EQ(gpu.step_rows, 2048);
  EXPECT_EQ(cpu.graphs, "off");
  EXPECT_EQ(gpu.graphs, "on");
  EngineOptions wished;
  wished.max_batch = 4096;
  EXPECT_EQ(options_on(Backend::kCuda, wished).step_rows, 4096) << "a row for each sequence";
  wished.step_rows = 7;
  wished.graphs = "off";
  EXPECT_EQ(options_on(Backend::kCuda, wished).step_rows, 7);
  EXPECT_EQ(options_on(Backend::kCuda, wished).graphs, "off");
}

TEST(Engine, AnAnswerThatFillsTheContextEndsWithLength) {
  Request r;
  r.prompt = prompt_of(60, 0);
  const Answers answers = run({options_of(2, 16, 96, 2), nullptr, true}, {r});
  const Answer& a = answers.at({0, 0});
  EXPECT_EQ(a.tokens.size() == 36, a.finish == FinishReason::kLength);
  Request no_end = r;
  no_end.ignore_eos = true;
  const Answers longer = run({options_of(2, 16, 96, 2), nullptr, true}, {no_end});
  EXPECT_EQ(longer.at({0, 0}).finish, FinishReason::kLength);
  EXPECT_EQ(longer.at({0, 0}).tokens.size(), 36u);
}

TEST(Engine, ARandomSeedIsReportedAndRepeats) {
  Request r;
  r.prompt = prompt_of(9, 0);
  r.max_tokens = 30;
  r.ignore_eos = true;
  const Answer first = run({options_of(1, 16, 96, 1), nullptr, true}, {r}).at({0, 0});
  const Answer other = run({options_of(1, 16, 96, 1), nullptr, true}, {r}).at({0, 0});
  EXPECT_NE(first.seed, other.seed);
  EXPECT_NE(first.tokens, other.tokens);
  r.sampling.seed = first.seed;
  const Answer again = run({options_of(1, 16, 96, 2), nullptr, true}, {r}).at({0, 0});
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_EQ(again.seed, first.seed);
}

TEST(Engine, AStopStringEndsTheAnswerAtTheSameTokenHoweverItIsComputed) {
  const Tokenizer tokenizer = character_tokenizer(kDecodable);
  ToyModel model(kVocabulary, kDecodable, kContext);
  const auto device = new_cpu_device(1);
  struct Told {
    std::string text;
    RequestEvent last;
  };
  const auto answer = [&](int64_t depth, Speculator* speculator, std::vector<std::string> stop) {
    auto engine =
        Engine::create(model, *device, {&tokenizer, {}}, options_of(2, 32, 512, depth), speculator);
    EXPECT_TRUE(engine) << engine.error().message;
    Told told;
    Request r;
    r.prompt = prompt_of(20, 3);
    r.max_tokens = 60;
    r.sampling.seed = 4;
    r.stop = std::move(stop);
    r.on_event = [&](const RequestEvent& e) {
      told.text += e.text;
      told.last = e;
    };
    EXPECT_TRUE((*engine)->submit(std::move(r)));
    EXPECT_TRUE((*engine)->run_until_idle());
    EXPECT_EQ((*engine)->stats().pages_free, (*engine)->stats().pages_total);
    return told;
  };
  const Told whole = answer(1, nullptr, {});
  ASSERT_EQ(whole.text.size(), 60u);
  EXPECT_EQ(whole.last.finish, FinishReason::kLength);
  const std::string stop = whole.text.substr(30, 3);
  const size_t at = whole.text.find(stop);
  for (int64_t depth : {1, 2}) {
    ReplaySpeculator speculator({}, {});
    for (Speculator* used :
         {static_cast<Speculator*>(nullptr), static_cast<Speculator*>(&speculator)}) {
      const Told told = answer(depth, used, {"@@@", stop});
      EXPECT_EQ(told.text, whole.text.substr(0, at));
      EXPECT_EQ(told.last.finish, FinishReason::kStop);
      EXPECT_EQ(told.last.stop_text, stop);
      EXPECT_EQ(told.last.usage.output_tokens, static_cast<int64_t>(at + 3));
    }
  }
}

TEST(Engine, MasksThatComeLateHoldAtBothDepths) {
  std::vector<Request> requests = wishes();
  for (size_t i = 0; i < requests.size(); i += 2) {
    requests[i].constraint = [] { return std::make_unique<AlternatingConstraint>(); };
  }
  const Answers one = run({options_of(8, 64, 4096, 1), nullptr, true}, requests);
  const Answers two = run({options_of(8, 64, 4096, 2), nullptr, true}, requests);
  expect_equal(two, one, "depth 2");
  const Answers free = alone();
  bool differs = false;
  for (const auto& [key, a] : one) {
    if (key.first % 2 != 0) {
      EXPECT_EQ(a.tokens, free.at(key).tokens);
      continue;
    }
    differs = differs || a.tokens != free.at(key).tokens;
    for (size_t i = 0; i < a.tokens.size(); ++i)
      EXPECT_EQ(a.tokens[i].token % 2, i % 2 == 0 ? 1 : 0);
  }
  EXPECT_TRUE(differs) << "the masks forbade nothing";
}

}  // namespace
}  // namespace ashlar
