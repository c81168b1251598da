// answer(): runs one request on a session's engine to its end, passing text on as it comes.
// It knows nothing of terminals or JSON; Ctrl-C reaches it as a flag that a signal handler sets.
#ifndef ASHLAR_APPS_ANSWER_H_
#define ASHLAR_APPS_ANSWER_H_

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "model_session.h"

namespace ashlar {

struct Answer {
  std::string text;
  std::vector<GeneratedToken> tokens;
  FinishReason finish = FinishReason::kNone;
  std::string stop_text;
  Usage usage;
  int64_t seed = 0;
  double first_token_seconds = 0;  // from submission
  double total_seconds = 0;
};

Result<Answer> answer(ModelSession& session, Request request,
                      const std::function<void(std::string_view)>& on_text);

// The object that --json prints. settings: the effective options.
nlohmann::json answer_json(const ModelSession& session, const Answer& answer,
                           const nlohmann::json& settings);

// Two lines for --stats.
std::string answer_stats(const ModelSession& session, const Answer& answer);

}  // namespace ashlar

#endif  // ASHLAR_APPS_ANSWER_H_
