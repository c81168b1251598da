// Random prompts, and what one call of Engine::step() did and took.
// A step counts as launched when it is planned: on the CPU its work is done within the same call.
#include "bench_crowd.h"

#include <chrono>

namespace ashlar {

Status BenchCrowd::submit(int64_t sequences, int64_t prompt_tokens, int64_t output_tokens) {
  const auto vocabulary = static_cast<uint64_t>(session_.model->info().decodable);
  positions_.assign(static_cast<size_t>(sequences), prompt_tokens);
  for (int64_t& position : positions_) {
    Request request;
    request.prompt.resize(static_cast<size_t>(prompt_tokens));
    for (int32_t& token : request.prompt) token = static_cast<int32_t>(random_() % vocabulary);
    request.sampling.temperature = 0;
    request.ignore_eos = true;
    request.max_tokens = output_tokens;
    request.on_event = [this, &position](const RequestEvent& event) {
      position += static_cast<int64_t>(event.tokens.size());
      if (event.finish == FinishReason::kError) failure_ = event.error.message;
    };
    ASHLAR_TRY(session_.engine->submit(std::move(request)));
  }
  return {};
}

Result<TimedStep> BenchCrowd::step() {
  Engine& engine = *session_.engine;
  const EngineStats before = engine.stats();
  const auto start = std::chrono::steady_clock::now();
  ASHLAR_ASSIGN(const bool more, engine.step());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const EngineStats after = engine.stats();
  if (!failure_.empty()) return fail(ErrorCode::kDevice, "a sequence failed: {}", failure_);
  TimedStep step;
  step.seconds = took.count();
  step.launched = after.steps - before.steps;
  step.prompt_rows = after.prompt_rows - before.prompt_rows;
  step.decode_rows = after.decode_rows - before.decode_rows;
  step.more = more;
  return step;
}

}  // namespace ashlar
