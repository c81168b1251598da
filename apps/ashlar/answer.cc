// Drives the engine step by step on the calling thread. An interrupt cancels the request and keeps
// what was said. Speeds are counted from submission: the first token's time is the prompt's, the
// rest are decode steps.
#include "answer.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "console.h"

namespace ashlar {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

nlohmann::json token_json(const Tokenizer& tokenizer, int32_t token, float logprob) {
  const std::string_view bytes = tokenizer.token_bytes(token);
  nlohmann::json out = {{"id", token}, {"logprob", logprob}};
  // A token may hold part of a code point, which JSON text cannot carry.
  out["bytes"] = std::vector<int>();
  for (char c : bytes) out["bytes"].push_back(static_cast<unsigned char>(c));
  return out;
}

}  // namespace

Result<Answer> answer(ModelSession& session, Request request,
                      const std::function<void(std::string_view)>& on_text) {
  Answer out;
  Error error;
  const Clock::time_point start = Clock::now();
  request.on_event = [&](const RequestEvent& event) {
    if (out.tokens.empty() && !event.tokens.empty()) out.first_token_seconds = seconds_since(start);
    out.tokens.insert(out.tokens.end(), event.tokens.begin(), event.tokens.end());
    out.text += event.text;
    out.usage = event.usage;
    out.seed = event.seed;
    if (event.finish != FinishReason::kNone) {
      out.finish = event.finish;
      out.stop_text = event.stop_text;
      error = event.error;
    }
    if (!event.text.empty()) on_text(event.text);
  };
  ASHLAR_ASSIGN(const RequestId id, session.engine->submit(std::move(request)));
  bool cancelled = false;
  while (out.finish == FinishReason::kNone) {
    if (interrupted() && !cancelled) {
      session.engine->cancel(id);
      cancelled = true;
    }
    ASHLAR_ASSIGN(const bool busy, session.engine->step());
    CHECK(busy || out.finish != FinishReason::kNone);
  }
  // With two steps in flight one may still refer to this request's pages.
  ASHLAR_TRY(session.engine->run_until_idle());
  out.total_seconds = seconds_since(start);
  if (out.finish == FinishReason::kError) return tl::unexpected<Error>(error);
  return out;
}

nlohmann::json answer_json(const ModelSession& session, const Answer& answer,
                           const nlohmann::json& settings) {
  nlohmann::json out = {{"model", session.opened->checkpoint->path()},
                        {"text", answer.text},
                        {"finish_reason", finish_reason_name(answer.finish)},
                        {"seed", answer.seed},
                        {"usage",
                         {{"prompt_tokens", answer.usage.prompt_tokens},
                          {"cached_tokens", answer.usage.cached_tokens},
                          {"output_tokens", answer.usage.output_tokens}}},
                        {"first_token_ms", answer.first_token_seconds * 1e3},
                        {"total_ms", answer.total_seconds * 1e3},
                        {"settings", settings}};
  out["stop_text"] = answer.stop_text.empty() ? nlohmann::json() : nlohmann::json(answer.stop_text);
  nlohmann::json& ids = out["tokens"] = nlohmann::json::array();
  for (const GeneratedToken& token : answer.tokens) ids.push_back(token.token);
  if (!settings.value("logprobs", nlohmann::json()).is_null()) {
    nlohmann::json& list = out["logprobs"] = nlohmann::json::array();
    for (const GeneratedToken& token : answer.tokens) {
      list.push_back(token_json(session.tokenizer(), token.token, token.logprob));
      nlohmann::json& top = list.back()["top"] = nlohmann::json::array();
      for (const TokenLogprob& t : token.top) {
        top.push_back(token_json(session.tokenizer(), t.token, t.logprob));
      }
    }
  }
  return out;
}

std::string answer_stats(const ModelSession& session, const Answer& answer) {
  const EngineStats stats = session.engine->stats();
  const double decode_seconds = answer.total_seconds - answer.first_token_seconds;
  const auto decoded = static_cast<double>(answer.tokens.size()) - 1;
  const auto prompt = static_cast<double>(answer.usage.prompt_tokens);
  return fmt::format(
      "{} prompt tokens, first token after {:.1f} ms ({:.0f} tok/s); {} output tokens, {:.1f} "
      "tok/s; "
      "finished: {}; seed {}\n"
      "{} steps, {} of {} pages free, KV {:.1f} MB, scratch {:.1f} of {:.1f} MB used, weights "
      "{:.1f} MB a "
      "step ({}), {}\n"
      "{}\n",
      answer.usage.prompt_tokens, answer.first_token_seconds * 1e3,
      prompt / std::max(answer.first_token_seconds, 1e-9), answer.usage.output_tokens,
      decoded > 0 ? decoded / std::max(decode_seconds, 1e-9) : 0.0,
      finish_reason_name(answer.finish), answer.seed, stats.steps, stats.pages_free,
      stats.pages_total, static_cast<double>(stats.kv_bytes) * 1e-6,
      static_cast<double>(stats.workspace_peak_bytes) * 1e-6,
      static_cast<double>(stats.workspace_bytes) * 1e-6,
      static_cast<double>(session.model->info().weight_bytes) * 1e-6,
      session.model->info().weight_formats, session.device->name(), step_counts_text(stats.ran_as));
}

}  // namespace ashlar
