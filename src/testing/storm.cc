// The same wishes alone, then all at once, and the comparison.
#include "testing/storm.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/engine_thread.h"
#include "engine/output.h"
#include "testing/random.h"

namespace ashlar {
namespace {

struct Answer {
  std::vector<GeneratedToken> tokens;
  std::string text;
  std::string stop_text;
  FinishReason finish = FinishReason::kNone;
  int64_t ends = 0;
};
using Answers = std::map<std::pair<size_t, int64_t>, Answer>;  // by (index of the wish, choice)

// Of one thread, or with a mutex held.
void note(Answers& answers, size_t index, const RequestEvent& e) {
  Answer& a = answers[{index, e.choice}];
  a.tokens.insert(a.tokens.end(), e.tokens.begin(), e.tokens.end());
  a.text += e.text;
  if (a.ends > 0 || e.finish != FinishReason::kNone) ++a.ends;
  a.finish = e.finish;
  a.stop_text = e.stop_text;
}

Request make_wish(Random& random, int64_t index, const ModelInfo& info, const StormOptions& options,
                  bool has_text) {
  Request r;
  const int64_t length = 1 + random.below(options.longest_prompt);
  for (int64_t i = 0; i < length; ++i) {
    r.prompt.push_back(static_cast<int32_t>(random.below(info.vocabulary)));
  }
  r.max_tokens = 1 + random.below(options.longest_answer);
  r.ignore_eos = random.below(4) > 0;
  r.min_tokens = random.below(2) == 0 ? random.below(r.max_tokens) : 0;
  r.choices = index % 5 == 0 ? 2 + random.below(2) : 1;
  if (random.below(8) == 0) {
    r.stop_tokens.push_back(static_cast<int32_t>(random.below(info.decodable)));
  }
  if (has_text && random.below(6) == 0) r.stop = {std::string(1, char('a' + random.below(26)))};
  SamplingParams& s = r.sampling;
  s.seed = 1000 + index;
  s.logprobs = random.below(4);
  s.temperature = index % 3 == 0 ? 0.0 : 0.7 + 0.1 * static_cast<double>(random.below(5));
  if (index % 4 == 1) s.top_p = 0.8;
  if (index % 4 == 2) s.top_k = 20;
  if (index % 7 == 3) s.min_p = 0.05;
  if (index % 3 == 2) s.repetition_penalty = 1.2;
  if (index % 5 == 4) s.frequency_penalty = 0.5;
  if (index % 6 == 5) s.presence_penalty = 0.4;
  return r;
}

Result<Answers> alone(Model& model, Device& device, const EngineText& text,
                      const std::vector<Request>& wishes) {
  EngineOptions options;
  options.max_batch = 1;
  options.depth = 1;
  ASHLAR_ASSIGN(const std::unique_ptr<Engine> engine, Engine::create(model, device, text, options));
  Answers answers;
  for (size_t i = 0; i < wishes.size(); ++i) {
    Request r = wishes[i];
    r.on_event = [&answers, i](const RequestEvent& e) { note(answers, i, e); };
    ASHLAR_TRY(engine->submit(std::move(r)));
    ASHLAR_TRY(engine->run_until_idle());
  }
  return answers;
}

// How a request is cancelled, if at all.
struct Fate {
  enum class Kind { kSurvives, kAfterTokens, kAfterTime } kind = Kind::kSurvives;
  int64_t after = 0;  // tokens of all choices, or microseconds since it was submitted
};

class Storm {
 public:
  Storm(EngineThread& engine, std::vector<Request> wishes, std::vector<Fate> fates)
      : engine_(engine), wishes_(std::move(wishes)), fates_(std::move(fates)) {}

  // One of `count` threads submits its share.
  void blow(size_t first, size_t count) {
    for (size_t i = first; i < wishes_.size(); i += count) {
      Request r = wishes_[i];
      r.on_event = [this, i, tokens = int64_t{0}](const RequestEvent& e) mutable {
        tokens += static_cast<int64_t>(e.tokens.size());
        const Fate& fate = fates_[i];
        if (fate.kind == Fate::Kind::kAfterTokens && tokens >= fate.after)
          engine_.cancel(e.request);
        const std::lock_guard<std::mutex> lock(mutex_);
        note(answers_, i, e);
      };
      const Result<RequestId> id = engine_.submit(std::move(r));
      if (!id) return problem(fmt::format("request {} is refused: {}", i, id.error().message));
      if (fates_[i].kind == Fate::Kind::kAfterTime) {
        std::this_thread::sleep_for(std::chrono::microseconds(fates_[i].after));
        engine_.cancel(*id);
      }
      if (engine_.stats().pages_free < 0) problem("fewer than no pages");
    }
  }

  void problem(std::string text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (problem_.empty()) problem_ = std::move(text);
  }
  const std::string& problem() const { return problem_; }
  const Answers& answers() const { return answers_; }
  const std::vector<Fate>& fates() const { return fates_; }

 private:
  EngineThread& engine_;
  const std::vector<Request> wishes_;
  const std::vector<Fate> fates_;
  std::mutex mutex_;
  Answers answers_;
  std::string problem_;
};

// The whole text of an answer that ends after these tokens and at no stop string: its last code
// point may be unfinished.
Result<std::string> text_of(const std::vector<GeneratedToken>& tokens, const Tokenizer* tokenizer,
                            const std::vector<std::string>& stops) {
  ASHLAR_ASSIGN(OutputText output, OutputText::create(tokenizer, stops));
  std::string text;
  for (const GeneratedToken& token : tokens) text += output.push(token.token);
  return text + output.flush();
}

// Whoever was not cancelled equals the answer alone; what the cancelled ones got is its first
// tokens, and the text of these.
std::string compare(const Storm& storm, const std::vector<Request>& wishes, const EngineText& text,
                    const Answers& wanted, StormReport& report) {
  for (const auto& [key, solo] : wanted) {
    const auto it = storm.answers().find(key);
    const std::string who = fmt::format("request {} choice {}", key.first, key.second);
    if (it == storm.answers().end()) return who + " got no event";
    const Answer& got = it->second;
    if (got.ends != 1) return fmt::format("{} ended {} times", who, got.ends);
    if (got.finish == FinishReason::kCancelled) {
      if (storm.fates()[key.first].kind == Fate::Kind::kSurvives) return who + " was cancelled";
      ++report.cancelled;
      if (got.tokens.size() > solo.tokens.size() ||
          !std::equal(got.tokens.begin(), got.tokens.end(), solo.tokens.begin())) {
        return who + " was cancelled, but began in another way than alone";
      }
      const auto begun = text_of(got.tokens, text.tokenizer, wishes[key.first].stop);
      if (!begun) return who + ": " + begun.error().message;
      if (got.text != *begun) return who + " was cancelled and has another text than its tokens";
      continue;
    }
    ++report.survivors;
    const size_t least = std::min(got.tokens.size(), solo.tokens.size());
    for (size_t i = 0; i < least; ++i) {
      if (!(got.tokens[i] == solo.tokens[i])) return fmt::format("{} differs at token {}", who, i);
    }
    if (got.tokens.size() != solo.tokens.size() || got.finish != solo.finish) {
      return fmt::format("{} ended with {} after {} tokens, alone with {} after {}", who,
                         finish_reason_name(got.finish), got.tokens.size(),
                         finish_reason_name(solo.finish), solo.tokens.size());
    }
    if (got.text != solo.text || got.stop_text != solo.stop_text) return who + " has another text";
  }
  return {};
}

}  // namespace

StormReport storm(Model& model, Device& device, const EngineText& text,
                  const StormOptions& options) {
  StormReport report;
  Random random(options.seed);
  std::vector<Request> wishes;
  std::vector<Fate> fates;
  for (int64_t i = 0; i < options.requests; ++i) {
    wishes.push_back(make_wish(random, i, model.info(), options, text.tokenizer != nullptr));
    Fate fate;
    if (i % 3 == 1) {
      fate.kind = random.below(2) == 0 ? Fate::Kind::kAfterTokens : Fate::Kind::kAfterTime;
      fate.after = fate.kind == Fate::Kind::kAfterTokens
                       ? 1 + random.below(wishes.back().max_tokens)
                       : (random.below(3) == 0 ? 0 : random.below(3000));
    }
    fates.push_back(fate);
  }
  Device& solo_device = options.solo_device != nullptr ? *options.solo_device : device;
  const Result<Answers> wanted = alone(model, solo_device, text, wishes);
  if (!wanted) return report.problem = wanted.error().message, report;

  auto engine = Engine::create(model, device, text, options.crowd);
  if (!engine) return report.problem = engine.error().message, report;
  auto thread = EngineThread::start(*std::move(engine));
  if (!thread) return report.problem = thread.error().message, report;
  Storm storm(**thread, wishes, fates);
  std::vector<std::thread> callers;
  for (int64_t t = 0; t < options.threads; ++t) {
    callers.emplace_back([&storm, &options, t] {
      storm.blow(static_cast<size_t>(t), static_cast<size_t>(options.threads));
    });
  }
  for (std::thread& caller : callers) caller.join();
  if (!(*thread)->wait_idle(std::chrono::minutes(10))) storm.problem("the storm does not end");
  report.stats = (*thread)->stats();
  (*thread)->stop();
  report.problem = storm.problem();
  if (report.problem.empty()) report.problem = compare(storm, wishes, text, *wanted, report);
  if (report.problem.empty() && report.stats.pages_free != report.stats.pages_total) {
    report.problem =
        fmt::format("{} of {} pages came back", report.stats.pages_free, report.stats.pages_total);
  }
  return report;
}

}  // namespace ashlar
