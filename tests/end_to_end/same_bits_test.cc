// The promise that an answer does not depend on how it was computed, through the whole engine: the
// same requests alone, in a crowd, in chunks of 1, 7 and 64 rows, preempted in the middle, with one
// and two steps in flight and other numbers of threads give the same tokens and logprobs, bit for
// bit. On the tiny model of every family, and on the fetched checkpoints where they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "models/model.h"
#include "testing/paths.h"

namespace ashlar {
namespace {

using Answers = std::map<std::pair<size_t, int64_t>, std::vector<GeneratedToken>>;

struct Way {
  const char* name;
  int64_t sequences;
  int64_t rows;
  bool tight;  // so few pages that they run out
  int64_t depth;
  int threads;
  bool crowd;
};

constexpr Way kAlone = {"alone", 1, 512, false, 1, 1, false};
constexpr Way kWays[] = {
    {"rows of one", 1, 1, false, 2, 2, false},
    {"chunks of 7", 1, 7, false, 1, 2, false},
    {"chunks of 64", 1, 64, false, 2, 1, false},
    {"crowd, prompts whole", 8, 512, false, 1, 2, true},
    {"crowd, chunks of 64, two steps in flight", 8, 64, false, 2, 2, true},
    {"crowd, chunks of 7", 7, 7, false, 2, 2, true},
    {"preempted", 8, 64, true, 2, 1, true},
    {"preempted, chunks of 7, one step in flight", 7, 7, true, 1, 2, true},
};

// Prompts of ids spread over the vocabulary; greedy and seeded, with penalties and cuts.
std::vector<Request> wishes(int64_t vocabulary, int64_t tokens) {
  std::vector<Request> list;
  const int64_t lengths[] = {1, 31, 32, 33, 64, 133};
  for (int64_t i = 0; i < 6; ++i) {
    Request r;
    for (int64_t p = 0; p < lengths[i]; ++p) {
      r.prompt.push_back(static_cast<int32_t>((p * 7919 + i * 104729 + 11) % vocabulary));
    }
    // The first ones grow by several pages, which the later ones have to give.
    r.max_tokens = tokens + (i == 0 ? 60 : i <= 2 ? 30 : i);
    r.ignore_eos = true;
    r.sampling.seed = i;
    r.sampling.logprobs = 2;
    r.sampling.temperature = i % 2 == 0 ? 0.0 : 1.0;
    if (i == 3) r.sampling.top_p = 0.9;
    if (i >= 4) r.sampling.repetition_penalty = 1.2;
    if (i == 1) r.choices = 2;
    list.push_back(std::move(r));
  }
  return list;
}

Answers answer(const std::string& path, const Way& way, int64_t tokens, EngineStats* stats) {
  const auto checkpoint = Checkpoint::open(path, {});
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
  const auto device = new_cpu_device(way.threads);
  const auto model = load_model(*checkpoint, *device, {});
  EXPECT_TRUE(model) << model.error().message;
  EngineOptions options;
  options.max_batch = way.sequences;
  options.step_rows = way.rows;
  // The longest request needs 133 + 5 + tokens; a page or two are left for the others.
  const int64_t positions = way.tight ? (tokens < 20 ? 192 : 256) : 2048;
  options.kv_positions = std::min(positions, (*model)->info().context_length);
  options.depth = way.depth;
  const auto engine = Engine::create(**model, *device, {}, options);
  EXPECT_TRUE(engine) << engine.error().message;
  Answers answers;
  std::vector<Request> requests = wishes((*model)->info().vocabulary, tokens);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].on_event = [&answers, i](const RequestEvent& event) {
      auto& list = answers[{i, event.choice}];
      list.insert(list.end(), event.tokens.begin(), event.tokens.end());
      EXPECT_NE(event.finish, FinishReason::kError) << event.error.message;
    };
    const auto id = (*engine)->submit(std::move(requests[i]));
    EXPECT_TRUE(id) << id.error().message;
    if (!way.crowd) {
      EXPECT_TRUE((*engine)->run_until_idle());
    }
  }
  EXPECT_TRUE((*engine)->run_until_idle());
  *stats = (*engine)->stats();
  EXPECT_EQ(stats->pages_free, stats->pages_total);
  return answers;
}

void compare_ways(const std::string& path, int64_t tokens, std::span<const Way> ways = kWays) {
  EngineStats stats;
  const Answers wanted = answer(path, kAlone, tokens, &stats);
  ASSERT_EQ(wanted.size(), 7u);
  std::set<int32_t> distinct;
  for (const auto& [key, list] : wanted) {
    for (const GeneratedToken& token : list) distinct.insert(token.token);
  }
  EXPECT_GT(distinct.size(), 10u) << path << ": the answers hardly differ";
  for (const Way& way : ways) {
    const Answers got = answer(path, way, tokens, &stats);
    ASSERT_EQ(got.size(), wanted.size());
    for (const auto& [key, list] : wanted) {
      const auto& other = got.at(key);
      ASSERT_EQ(other.size(), list.size()) << path << ", " << way.name;
      const auto [a, b] = std::mismatch(list.begin(), list.end(), other.begin());
      EXPECT_TRUE(a == list.end())
          << path << ", " << way.name << ": request " << key.first << " choice " << key.second
          << " differs at token " << a - list.begin();
    }
    if (way.tight) {
      EXPECT_GT(stats.preemptions, 0) << path << ": pages were not tight";
    }
  }
}

TEST(SameBits, TinyModelsOfEveryFamily) {
  for (const char* name :
       {"llama.gguf", "llama.q8_0_q4_0.gguf", "llama_k.q2_k_to_q6_k.gguf", "mistral_window",
        "qwen2.f16_q8_0.gguf", "qwen3.q4_1_q5_1_iq4_nl_mxfp4.gguf", "gemma3",
        "gemma3.q5_0_q8_0_q4_0.gguf", "llama_bias"}) {
    compare_ways((source_dir() / "tests/golden/tiny" / name).string(), 40);
  }
}

TEST(RealModelSameBits, SmolLM2) {
  if (!std::filesystem::exists(smollm2_path())) GTEST_SKIP() << smollm2_path() << " is not there";
  compare_ways(smollm2_path().string(), 12);
}

TEST(RealModelSameBits, Gemma3) {
  if (!std::filesystem::exists(gemma3_path())) GTEST_SKIP() << gemma3_path() << " is not there";
  // One way alone: the others would take minutes here, and its tiny twin above goes them all.
  compare_ways(gemma3_path().string(), 12, std::span(kWays).subspan(3, 1));
}

}  // namespace
}  // namespace ashlar
