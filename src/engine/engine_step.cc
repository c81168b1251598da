// One round of the engine: cancels, launching of steps, masks that come late, and what becomes of
// results.
#include <algorithm>

#include "base/check.h"
#include "engine/engine_state.h"

namespace ashlar {

void Engine::State::apply_cancels() {
  // An event of a cancelled choice may cancel more.
  while (!cancels.empty()) {
    const RequestId id = cancels.back();
    cancels.pop_back();
    const auto it = requests.find(id);
    if (it == requests.end()) continue;
    const SequenceId first = it->second.first;
    const int64_t count = it->second.wish.choices;
    for (SequenceId choice = first; choice < first + count; ++choice) {
      end_choice(choice, FinishReason::kCancelled, {});
    }
  }
}

void Engine::State::launch() {
  while (scheduler.in_flight() < options.depth && unsampled.empty()) {
    StepPlan plan = scheduler.plan();
    if (plan.empty()) break;
    set_slots(plan);
    runner->forward(plan);
    unsampled.push_back(std::move(plan));
    try_sample();
  }
  // Whatever waits can run once everything in flight is known; otherwise the scheduler has made a
  // mistake.
  CHECK(scheduler.in_flight() > 0 || scheduler.idle());
}

void Engine::State::set_slots(const StepPlan& plan) {
  for (const SequenceRows& rows : plan.rows) {
    if (!rows.starts) continue;
    const Sequence& s = *scheduler.find(rows.sequence);
    EngineChoice& choice = choices.at(rows.sequence);
    const EngineRequest& request = requests.at(choice.request);
    choice.cached_tokens = s.cached;
    SlotSetup setup;
    setup.sampling = request.wish.sampling;
    setup.seed = request.seed;
    setup.choice = choice.choice;
    setup.tokens = s.tokens;
    setup.prompt_tokens = s.prompt_tokens();
    setup.min_tokens = request.wish.min_tokens;
    setup.end_tokens = request.end_tokens;
    runner->set_slot(rows.slot, setup);
  }
}

// Launches the sample part of the step whose forward part runs, unless a mask in it needs a token
// in flight.
void Engine::State::try_sample() {
  if (unsampled.empty()) return;
  const StepPlan& plan = unsampled.front();
  for (const SequenceRows& rows : plan.rows) {
    // Rows of a step before are still in flight, and their token decides the mask.
    const Sequence& s = *scheduler.find(rows.sequence);
    if (rows.late && !s.finished() && s.in_flight > 1) return;
  }
  runner->sample(plan, make_masks(plan));
  unsampled.pop_front();
}

StepMasks Engine::State::make_masks(const StepPlan& plan) {
  StepMasks masks;
  if (!plan.waits_for_masks()) return masks;
  masks.words = (model.info().decodable + 31) / 32;
  for (const SequenceRows& rows : plan.rows) {
    if (!rows.late) continue;
    const size_t begin = masks.bits.size();
    masks.bits.resize(begin + static_cast<size_t>(masks.words), ~0u);
    const auto choice = choices.find(rows.sequence);
    if (choice == choices.end()) continue;  // it ended meanwhile and its token will be discarded
    const std::span<uint32_t> mask = std::span<uint32_t>(masks.bits).subspan(begin);
    const Status made = choice->second.constraint->allowed(mask);
    if (made) continue;
    std::fill(mask.begin(), mask.end(), ~0u);
    end_choice(rows.sequence, FinishReason::kError, made.error());
  }
  return masks;
}

Status Engine::State::reconcile() {
  // A step that waits for masks gets them after the step before it, so the oldest one always has
  // its sample part.
  CHECK(scheduler.in_flight() > static_cast<int64_t>(unsampled.size()));
  ASHLAR_ASSIGN(StepResult result, runner->wait());
  explain_failures(result);
  const std::vector<Outcome> outcomes = scheduler.reconcile(result);
  size_t next = 0;
  for (const Outcome& outcome : outcomes) {
    while (result.rows[next].sequence != outcome.sequence) ++next;
    deliver(outcome, result.rows[next]);
  }
  try_sample();
  return {};
}

// Adds to a failure where it began, as long as its sequence still has its pages.
void Engine::State::explain_failures(StepResult& result) {
  for (SequenceResult& r : result.rows) {
    const Sequence* s = scheduler.find(r.sequence);
    if (r.bad_position < 0 || s == nullptr || s->phase != Sequence::Phase::kRunning ||
        r.bad_position >= s->known() || !unsampled.empty()) {
      continue;
    }
    SequenceRows row;
    row.sequence = s->id;
    row.slot = s->slot;
    row.first = r.bad_position;
    row.count = 1;
    row.starts = true;
    row.wants_logits = true;
    row.tokens = {s->tokens[static_cast<size_t>(r.bad_position)]};
    row.pages = s->pages.ids();
    const std::string where = runner->explain(row);
    if (!where.empty()) r.failure += fmt::format("; the first such value is in {}", where);
  }
}

RequestEvent Engine::State::event_of(const EngineChoice& choice) const {
  const EngineRequest& request = requests.at(choice.request);
  RequestEvent event;
  event.request = choice.request;
  event.choice = choice.choice;
  event.seed = request.seed;
  event.usage = {request.prompt_tokens, choice.cached_tokens, choice.output_tokens};
  return event;
}

void Engine::State::deliver(const Outcome& outcome, const SequenceResult& result) {
  const auto it = choices.find(outcome.sequence);
  if (it == choices.end()) return;  // cancelled by an event of this very step
  EngineChoice& choice = it->second;
  if (outcome.finish == FinishReason::kError) {
    end_choice(outcome.sequence, FinishReason::kError, {ErrorCode::kInternal, result.failure});
    return;
  }
  std::vector<GeneratedToken> tokens;
  std::string printable;
  FinishReason finish = FinishReason::kNone;
  for (int64_t i = 0; i < outcome.appended && finish == FinishReason::kNone; ++i) {
    const GeneratedToken& token = result.tokens[static_cast<size_t>(i)];
    tokens.push_back(token);
    ++choice.output_tokens;
    if (i + 1 == outcome.appended) finish = outcome.finish;
    if (finish == FinishReason::kStop) break;  // a token that ends the answer has no text in it
    printable += choice.text.push(token.token);
    if (choice.text.stopped()) finish = FinishReason::kStop;
  }
  if (choice.constraint != nullptr && finish == FinishReason::kNone) {
    for (const GeneratedToken& token : tokens) {
      const Status accepted = choice.constraint->accept(token.token);
      if (accepted) continue;
      scheduler.finish(outcome.sequence);
      end_choice(outcome.sequence, FinishReason::kError, accepted.error());
      return;
    }
  }
  RequestEvent event = event_of(choice);
  event.tokens = std::move(tokens);
  event.text = std::move(printable);
  if (finish != FinishReason::kNone) {
    scheduler.finish(outcome.sequence);  // no effect unless a stop string ended it
    event.text += choice.text.flush();
    event.stop_text = choice.text.stop_text();
    // The end of the text may complete a stop string, too.
    event.finish = choice.text.stopped() ? FinishReason::kStop : finish;
    finish_choice(outcome.sequence, std::move(event));
    return;
  }
  const auto& on_event = requests.at(choice.request).wish.on_event;
  if (on_event) on_event(event);
}

// The choice leaves with its last event.
void Engine::State::finish_choice(SequenceId id, RequestEvent event) {
  const RequestId request_id = choices.at(id).request;
  choices.erase(id);
  ++finished;
  EngineRequest& request = requests.at(request_id);
  const auto on_event = request.wish.on_event;
  if (--request.open_choices == 0) requests.erase(request_id);
  if (on_event) on_event(event);
}

void Engine::State::end_choice(SequenceId id, FinishReason reason, Error error) {
  const auto it = choices.find(id);
  if (it == choices.end()) return;
  scheduler.finish(id);
  RequestEvent event = event_of(it->second);
  event.text = it->second.text.flush();
  event.finish = reason;
  event.error = std::move(error);
  finish_choice(id, std::move(event));
}

void Engine::State::fail_all(const Error& error) {
  failed = true;
  failure = error;
  while (!choices.empty()) end_choice(choices.begin()->first, FinishReason::kError, error);
}

}  // namespace ashlar
