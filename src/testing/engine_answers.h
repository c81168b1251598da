// What engine tests over the toy model share: eight wishes that differ in everything, a run that
// collects the answers, and drafts and masks to go with them.
#ifndef ASHLAR_TESTING_ENGINE_ANSWERS_H_
#define ASHLAR_TESTING_ENGINE_ANSWERS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/speculator.h"
#include "testing/toy_model.h"

namespace ashlar {

inline constexpr int64_t kVocabulary = 80;
inline constexpr int64_t kDecodable = 73;
inline constexpr int64_t kContext = 400;
inline constexpr int32_t kEnd = 5;

struct Answer {
  std::vector<GeneratedToken> tokens;
  FinishReason finish = FinishReason::kNone;
  Error error;
  Usage usage;
  int64_t seed = 0;
};
using Answers = std::map<std::pair<int64_t, int64_t>, Answer>;  // by (index of the request, choice)

inline std::vector<int32_t> prompt_of(int64_t length, int32_t salt) {
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < length; ++i)
    prompt.push_back(static_cast<int32_t>((i * 7 + salt * 13 + i * i) % 70));
  return prompt;
}

// Eight wishes that differ in length, sampling and rules.
inline std::vector<Request> wishes() {
  std::vector<Request> list;
  const int64_t lengths[] = {1, 31, 32, 33, 64, 100, 5, 150};
  for (int i = 0; i < 8; ++i) {
    Request r;
    r.prompt = prompt_of(lengths[i], i);
    r.max_tokens = 20 + 5 * i;
    r.sampling.seed = 100 + i;
    r.sampling.logprobs = i % 3;
    r.sampling.temperature = i % 2 == 0 ? 0.0 : 0.8;
    if (i == 3) r.sampling.top_p = 0.7;
    if (i == 5) r.sampling.top_k = 10;
    if (i >= 4) r.sampling.repetition_penalty = 1.3;
    if (i >= 6) r.sampling.frequency_penalty = 0.5;
    if (i == 7) r.min_tokens = 30;
    if (i == 1 || i == 4) r.choices = 3;
    list.push_back(std::move(r));
  }
  return list;
}

// Drafts the token that followed the same token at the same position in an earlier run, and
// sometimes a wrong one.
class ReplaySpeculator : public Speculator {
 public:
  explicit ReplaySpeculator(const Answers& answers, const std::vector<Request>& requests) {
    for (const auto& [key, answer] : answers) {
      int64_t position = static_cast<int64_t>(requests[key.first].prompt.size());
      for (size_t i = 0; i + 1 < answer.tokens.size(); ++i, ++position) {
        next_[{position, answer.tokens[i].token}] = answer.tokens[i + 1].token;
      }
    }
  }
  int64_t drafts() const override { return 3; }
  void propose(Stream&, TensorView slots, TensorView feed, TensorView lengths,
               TensorView drafts) override {
    for (int64_t i = 0; i < slots.dim(0); ++i) {
      const int32_t slot = slots.as<int32_t>()[i];
      if (slot < 0) continue;
      int64_t position = lengths.as<int32_t>()[slot];
      int32_t token = feed.as<int32_t>()[slot];
      for (int64_t d = 0; d < drafts.dim(1); ++d, ++position) {
        const auto it = next_.find({position, token});
        token = it == next_.end() ? 0 : it->second;
        if (++calls_ % 7 == 0) token = (token + 1) % kDecodable;
        drafts.row<int32_t>(slot)[d] = token;
      }
    }
  }

 private:
  std::map<std::pair<int64_t, int32_t>, int32_t> next_;
  int64_t calls_ = 0;
};

struct Setup {
  EngineOptions options;
  Speculator* speculator = nullptr;
  bool crowd = true;         // all at once, or one after the other
  Device* device = nullptr;  // null: a CPU device
};

inline EngineOptions options_of(int64_t sequences, int64_t rows, int64_t positions, int64_t depth) {
  EngineOptions o;
  o.max_batch = sequences;
  o.step_rows = rows;
  o.kv_positions = positions;
  o.depth = depth;
  return o;
}

inline Answers run(const Setup& setup, std::vector<Request> requests,
                   EngineStats* stats = nullptr) {
  ToyModel model(kVocabulary, kDecodable, kContext);
  const auto cpu = new_cpu_device(2);
  Device& device = setup.device != nullptr ? *setup.device : *cpu;
  auto engine = Engine::create(model, device, {nullptr, {kEnd}}, setup.options, setup.speculator);
  EXPECT_TRUE(engine) << engine.error().message;
  Answers answers;
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].on_event = [&answers, i](const RequestEvent& event) {
      Answer& a = answers[{static_cast<int64_t>(i), event.choice}];
      EXPECT_EQ(a.finish, FinishReason::kNone) << "an event after the last one";
      a.tokens.insert(a.tokens.end(), event.tokens.begin(), event.tokens.end());
      a.finish = event.finish;
      a.error = event.error;
      a.usage = event.usage;
      a.seed = event.seed;
    };
    const auto id = (*engine)->submit(std::move(requests[i]));
    EXPECT_TRUE(id) << id.error().message;
    if (!setup.crowd) {
      EXPECT_TRUE((*engine)->run_until_idle());
    }
  }
  EXPECT_TRUE((*engine)->run_until_idle());
  EXPECT_EQ((*engine)->stats().pages_free, (*engine)->stats().pages_total);
  if (stats != nullptr) *stats = (*engine)->stats();
  return answers;
}

inline void expect_equal(const Answers& got, const Answers& wanted, std::string_view what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (const auto& [key, answer] : wanted) {
    const Answer& other = got.at(key);
    EXPECT_EQ(other.tokens, answer.tokens)
        << what << ": request " << key.first << " choice " << key.second;
    EXPECT_EQ(other.finish, answer.finish) << what;
  }
}

inline Answers alone() { return run({options_of(1, 512, 4096, 1), nullptr, false}, wishes()); }

// Allows a token only if it differs in parity from the one before: a mask that needs the token
// before.
class AlternatingConstraint : public TokenConstraint {
 public:
  Status allowed(std::span<uint32_t> bits) override {
    for (uint32_t& word : bits) word = last_ % 2 == 0 ? 0xAAAAAAAAu : 0x55555555u;
    return {};
  }
  Status accept(int32_t token) override {
    EXPECT_NE(token % 2, last_ % 2);
    last_ = token;
    return {};
  }

 private:
  int32_t last_ = 0;
};

}  // namespace ashlar

#endif  // ASHLAR_TESTING_ENGINE_ANSWERS_H_
