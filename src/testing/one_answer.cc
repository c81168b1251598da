// The requests, the list of engines, and the comparison.
#include "testing/one_answer.h"

#include <algorithm>
#include <cmath>

#include "base/align.h"
#include "cache/state_needs.h"
#include "testing/random.h"

namespace ashlar {
namespace {

using Answers = std::vector<std::vector<GeneratedToken>>;

// Short prompts and long ones are equally likely.
int64_t random_length(Random& random, int64_t longest) {
  const double share = static_cast<double>(random.below(1000)) / 1000.0;
  return std::max<int64_t>(1, std::llround(std::pow(static_cast<double>(longest), share)));
}

std::vector<Request> make_requests(const ModelInfo& info, const OneAnswerOptions& options) {
  Random random(options.seed);
  std::vector<Request> list;
  for (int64_t i = 0; i < options.requests; ++i) {
    Request r;
    const int64_t length =
        i == 0 ? options.longest_prompt : random_length(random, options.longest_prompt);
    for (int64_t t = 0; t < length; ++t) {
      r.prompt.push_back(static_cast<int32_t>(random.below(info.decodable)));
    }
    r.max_tokens = 1 + random.below(options.longest_answer);
    r.ignore_eos = true;
    r.sampling.seed = 1000 + i;
    r.sampling.logprobs = i % 4;
    r.sampling.temperature = i % 2 == 0 ? 0.0 : 0.9;
    if (i % 5 == 1) r.sampling.top_p = 0.8;
    if (i % 7 == 3) r.sampling.top_k = 30;
    if (i % 6 == 5) r.sampling.repetition_penalty = 1.2;
    if (i % 9 == 4) r.sampling.frequency_penalty = 0.3;
    list.push_back(std::move(r));
  }
  return list;
}

Result<Answers> answers_of(Model& model, Device& device, const EngineOptions& options, bool crowd,
                           const std::vector<Request>& requests, OneAnswerReport& report) {
  ASHLAR_ASSIGN(const auto engine, Engine::create(model, device, {}, options));
  Answers answers(requests.size());
  Error failure;
  for (size_t i = 0; i < requests.size(); ++i) {
    Request r = requests[i];
    r.on_event = [&, i](const RequestEvent& e) {
      answers[i].insert(answers[i].end(), e.tokens.begin(), e.tokens.end());
      if (e.finish == FinishReason::kError) failure = e.error;
    };
    ASHLAR_TRY(engine->submit(std::move(r)));
    if (!crowd) ASHLAR_TRY(engine->run_until_idle());
  }
  ASHLAR_TRY(engine->run_until_idle());
  if (!failure.message.empty()) return tl::unexpected<Error>(failure);
  const EngineStats stats = engine->stats();
  for (const RecordedCount& c : stats.ran_as.recorded) report.replayed += c.steps;
  for (const int64_t steps : stats.ran_as.direct) report.direct += steps;
  report.preemptions += stats.preemptions;
  return answers;
}

struct Run {
  std::string name;
  EngineOptions options;
  bool crowd = false;
};

std::vector<Run> make_runs(const OneAnswerOptions& options, int64_t context) {
  EngineOptions base;
  base.max_context = context;
  base.kv_positions = round_up(context, kPagePositions);
  base.max_batch = 1;
  base.step_rows = 512;
  base.max_waiting = 100000;
  base.depth = 1;
  base.graphs = "off";
  std::vector<Run> runs = {{"the reference", base, false}};
  const auto add = [&](std::string name, const EngineOptions& of, bool crowd) {
    runs.push_back({std::move(name), of, crowd});
  };
  for (const int64_t rows : options.chunks) {
    EngineOptions o = base;
    o.step_rows = rows;
    o.depth = 2;
    o.graphs = "on";
    add(fmt::format("alone, recorded, two in flight, chunks of {}", rows), o, false);
  }
  for (const int64_t crowd : options.crowds) {
    for (const bool recorded : {false, true}) {
      for (const int64_t depth : {1, 2}) {
        EngineOptions o = base;
        o.max_batch = crowd;
        o.step_rows = std::max<int64_t>(crowd, depth == 1 ? 512 : 100);
        o.kv_positions = round_up(context, kPagePositions) * std::min<int64_t>(crowd, 8);
        o.depth = depth;
        o.graphs = recorded ? "on" : "off";
        add(fmt::format("{} at once, {}, {} in flight", crowd, recorded ? "recorded" : "direct",
                        depth),
            o, true);
      }
    }
  }
  if (options.tight_positions > 0) {
    EngineOptions o = base;
    o.max_batch = options.crowds.back();
    o.step_rows = std::max<int64_t>(o.max_batch, 200);
    o.kv_positions = std::max(round_up(context, kPagePositions), options.tight_positions);
    o.depth = 2;
    o.graphs = "on";
    add("too few pages", o, true);
  }
  return runs;
}

std::string difference(const Answers& got, const Answers& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    const size_t least = std::min(got[i].size(), wanted[i].size());
    for (size_t t = 0; t < least; ++t) {
      if (got[i][t] == wanted[i][t]) continue;
      return fmt::format("request {} token {}: {} ({}), alone {} ({})", i, t, got[i][t].token,
                         got[i][t].logprob, wanted[i][t].token, wanted[i][t].logprob);
    }
    if (got[i].size() != wanted[i].size()) {
      return fmt::format("request {}: {} tokens, alone {}", i, got[i].size(), wanted[i].size());
    }
  }
  return {};
}

struct Told {
  std::vector<GeneratedToken> tokens;
  std::string error;
};

Result<std::vector<Told>> tell(Engine& engine, const std::vector<Request>& requests, bool crowd) {
  std::vector<Told> told(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    Request r = requests[i];
    r.on_event = [&told, i](const RequestEvent& e) {
      told[i].tokens.insert(told[i].tokens.end(), e.tokens.begin(), e.tokens.end());
      told[i].error = e.error.message;
    };
    ASHLAR_TRY(engine.submit(std::move(r)));
    if (!crowd) ASHLAR_TRY(engine.run_until_idle());
  }
  ASHLAR_TRY(engine.run_until_idle());
  return told;
}

Result<std::string> find_bad_row_problem(Model& model, Device& device, int32_t bad_token) {
  constexpr size_t kBad = 3;
  std::vector<Request> requests =
      make_requests(model.info(), {.requests = 8, .longest_prompt = 90});
  for (Request& r : requests) {
    std::replace(r.prompt.begin(), r.prompt.end(), bad_token, bad_token + 1);
    r.sampling.logit_bias = {{bad_token, -1000.0f}};
  }
  EngineOptions options;
  options.max_context = 256;
  options.kv_positions = 320;
  options.step_rows = 64;
  options.graphs = "on";
  ASHLAR_ASSIGN(const auto solo, Engine::create(model, device, {}, options));
  ASHLAR_ASSIGN(const std::vector<Told> wanted, tell(*solo, requests, false));
  requests[kBad].prompt.resize(40, 5);
  requests[kBad].prompt[20] = bad_token;
  ASHLAR_ASSIGN(const auto engine, Engine::create(model, device, {}, options));
  for (int round = 0; round < 2; ++round) {
    ASHLAR_ASSIGN(const std::vector<Told> told, tell(*engine, requests, true));
    for (size_t i = 0; i < told.size(); ++i) {
      if (i != kBad) {
        if (!told[i].error.empty()) return fmt::format("request {}: {}", i, told[i].error);
        if (told[i].tokens != wanted[i].tokens) return fmt::format("request {} differs", i);
        continue;
      }
      const bool named = told[i].error.find("not finite") != std::string::npos &&
                         told[i].error.find("is in layers.0") != std::string::npos;
      if (!named) return fmt::format("the bad request says '{}'", told[i].error);
    }
  }
  return std::string();
}

}  // namespace

std::string bad_row_problem(Model& model, Device& device, int32_t bad_token) {
  const Result<std::string> problem = find_bad_row_problem(model, device, bad_token);
  return problem ? *problem : problem.error().message;
}

OneAnswerReport one_answer(Model& model, Device& device, const OneAnswerOptions& options) {
  OneAnswerReport report;
  const std::vector<Request> requests = make_requests(model.info(), options);
  const int64_t context = options.max_context > 0
                              ? options.max_context
                              : options.longest_prompt + options.longest_answer + 1;
  Answers wanted;
  for (const Run& run : make_runs(options, context)) {
    Result<Answers> got = answers_of(model, device, run.options, run.crowd, requests, report);
    if (!got) {
      report.problem = run.name + ": " + got.error().message;
      return report;
    }
    if (wanted.empty()) {
      wanted = *std::move(got);
      for (const auto& tokens : wanted) report.tokens += static_cast<int64_t>(tokens.size());
      continue;
    }
    report.answers += static_cast<int64_t>(requests.size());
    const std::string text = difference(*got, wanted);
    if (!text.empty()) {
      report.problem = run.name + ": " + text;
      return report;
    }
  }
  return report;
}

}  // namespace ashlar
