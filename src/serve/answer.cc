// One POST as a coroutine on its connection's loop. Threads: the prompt is prepared on a worker of
// the pool, events come from the engine's thread; both go through a mailbox, and neither waits for
// the client. Whatever ends the coroutine, a vanished client included, closes the mailboxes and
// cancels what still runs.
#include "serve/answer.h"

#include <algorithm>
#include <ctime>
#include <new>
#include <optional>

#include "serve/mailbox.h"
#include "serve/openai_response.h"
#include "serve/sse.h"

namespace ashlar {

namespace {

constexpr size_t kShortBodyBytes = 64 << 10;
// Events that may wait for a whole answer, whose loop takes them at once.
constexpr size_t kMaxEventBytes = 16 << 20;
// Those of a stream wait while the client is behind; in memory an event is smaller than in JSON.
constexpr size_t kEventsPerBacklog = 4;

struct ChoiceEvent {
  int64_t prompt = 0;
  RequestEvent event;
};

using Prepared = ApiResult<PreparedRequest>;
using PromptBox = Mailbox<Prepared>;
using EventBox = Mailbox<ChoiceEvent>;

size_t event_bytes(const RequestEvent& event) {
  size_t bytes = sizeof(ChoiceEvent) + event.text.size();
  for (const GeneratedToken& token : event.tokens) {
    bytes += sizeof token + token.top.size() * sizeof(TokenLogprob);
  }
  return bytes;
}

ApiError stopping_error() {
  return api_fail(503, "stopping", "the server is stopping and takes no more requests").value();
}

// The engine names the field at fault before a colon; its names are ours but for two.
ApiError submit_error(const Error& error, ApiKind kind) {
  ApiError out = api_error(error);
  const std::string_view prompt = kind == ApiKind::kChat ? "messages" : "prompt";
  const std::string_view name = std::string_view(error.message).substr(0, error.message.find(": "));
  if (error.code == ErrorCode::kOutOfRange) {
    out.param = prompt;
    out.code = "context_length_exceeded";
  } else if (name == "stop_tokens") {
    out.param = "stop_token_ids";
    out.message.replace(0, name.size(), out.param);
  } else if (name == "prompt") {
    out.param = prompt;
    out.message.replace(0, name.size(), out.param);
  } else if (name == "n" || name == "min_tokens" || name == "max_tokens" || name == "logit_bias") {
    out.param = name;
  }
  return out;
}

// Closes a mailbox with the scope that reads it.
template <class Box>
struct OpenBox {
  std::shared_ptr<Box> box;
  ~OpenBox() { box->close(); }
};

class Answering {
 public:
  Answering(Connection& connection, ServeContext& context, ApiKind kind)
      : connection_(connection), context_(context), kind_(kind) {}
  ~Answering() { cancel_all(); }
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;

  asio::awaitable<void> run();

 private:
  asio::awaitable<Prepared> prepare();
  std::optional<ApiError> submit();
  Request make_request(size_t prompt);
  asio::awaitable<void> take_events();
  void take(const ChoiceEvent& item, std::string& out);
  void stream_event(int64_t choice, const RequestEvent& event, std::string& out);
  size_t backlog_limit() const { return static_cast<size_t>(context_.options.max_backlog_bytes); }
  void finish();
  void fail(const ApiError& error);
  void cancel_all();
  Usage total_usage() const;

  Connection& connection_;
  ServeContext& context_;
  const ApiKind kind_;
  ApiRequest request_;
  std::vector<std::vector<int32_t>> prompts_;
  std::vector<std::string> echoes_;
  std::shared_ptr<EventBox> events_;
  std::vector<RequestId> ids_;  // of submitted prompts
  std::vector<AnswerChoice> choices_;
  std::vector<Usage> usages_;  // a choice
  std::vector<char> started_;  // a choice: something of it was streamed
  int64_t open_ = 0;           // choices without a finish reason
  std::optional<AnswerWriter> writer_;
  std::optional<ApiError> failure_;
};

asio::awaitable<void> Answering::run() {
  if (context_.draining) {
    connection_.respond(stopping_error());
    co_return;
  }
  Prepared prepared = co_await prepare();
  if (connection_.gone()) co_return;
  if (!prepared) {
    connection_.respond(prepared.error());
    co_return;
  }
  request_ = std::move(prepared->request);
  prompts_ = std::move(prepared->prompts);
  echoes_ = std::move(prepared->echoes);
  events_ = std::make_shared<EventBox>(
      connection_.io(), [c = &connection_] { c->notify(); },
      request_.stream ? backlog_limit() * kEventsPerBacklog : kMaxEventBytes);
  const OpenBox<EventBox> open{events_};
  if (const std::optional<ApiError> refusal = submit()) {
    connection_.respond(*refusal);
    co_return;
  }
  if (request_.stream) connection_.start_stream(kSseContentType);
  co_await take_events();
  if (connection_.gone()) co_return;
  if (failure_) {
    fail(*failure_);
  } else {
    finish();
  }
}

asio::awaitable<Prepared> Answering::prepare() {
  const auto box = std::make_shared<PromptBox>(
      connection_.io(), [c = &connection_] { c->notify(); }, /*max_bytes=*/1);
  const OpenBox<PromptBox> open{box};
  PromptLimits limits;
  limits.max_bytes = context_.options.max_prompt_bytes;
  limits.max_prompts = context_.engine.options().max_waiting;
  limits.max_context = context_.engine.options().max_context;
  limits.token_bytes = context_.token_bytes;
  limits.deadline =
      Connection::Clock::now() + std::chrono::milliseconds(context_.options.prompt_timeout_ms);
  const auto body = std::make_shared<std::string>(connection_.take_body());
  const bool is_short = body->size() <= kShortBodyBytes;
  const bool taken = context_.prompts->submit(
      [box, body, limits, kind = kind_, model = context_.model] {
        try {
          box->push(prepare_request(kind, *body, *model, limits), 1);
        } catch (const std::exception&) {  // no memory for what the client asks
          box->push(api_fail(500, "internal_error", "not enough memory for this request"), 1);
        }
      },
      is_short);
  if (!taken) {
    co_return api_fail(429, "prompt_queue_full",
                       "prompt_queue requests wait to be encoded already; try again later");
  }
  while (!connection_.gone()) {
    std::vector<Prepared> results = box->take();
    if (!results.empty()) co_return std::move(results.front());
    if (Connection::Clock::now() >= limits.deadline) break;
    co_await connection_.wait(limits.deadline);
  }
  // A worker may still be at it; it is bounded by the sizes, owns what it uses, and its result
  // falls into a closed box.
  co_return api_fail(503, "prompt_timeout",
                     "the prompt was not ready within prompt_timeout_ms; send less or try again");
}

Request Answering::make_request(size_t prompt) {
  Request request;
  request.prompt = std::move(prompts_[prompt]);
  request.sampling = request_.sampling;
  request.choices = request_.n;
  request.max_tokens = request_.max_tokens.value_or(0);
  request.min_tokens = request_.min_tokens;
  request.ignore_eos = request_.ignore_eos;
  request.stop_tokens = request_.stop_token_ids;
  request.stop = request_.stop;
  request.on_event = [box = events_, prompt](const RequestEvent& event) {
    box->push({static_cast<int64_t>(prompt), event}, event_bytes(event));
  };
  return request;
}

// All prompts or none: a refusal cancels those before it.
std::optional<ApiError> Answering::submit() {
  const int64_t choices = std::ssize(prompts_) * request_.n;
  choices_.resize(static_cast<size_t>(choices));
  usages_.resize(choices_.size());
  started_.resize(choices_.size());
  const bool chat = kind_ == ApiKind::kChat;
  AnswerIdentity identity;
  identity.kind = kind_;
  identity.id = context_.new_id(chat ? "chatcmpl-" : "cmpl-");
  identity.created = std::time(nullptr);
  identity.model = request_.model;
  identity.fingerprint = fmt::format("ashlar-{}", context_.version);
  writer_.emplace(std::move(identity), *context_.model->tokenizer, choices,
                  request_.sampling.logprobs.has_value(), request_.include_usage);
  for (size_t prompt = 0; prompt < prompts_.size(); ++prompt) {
    const Result<RequestId> id = context_.engine.submit(make_request(prompt));
    if (!id) {
      if (id.error().code == ErrorCode::kUnavailable && context_.draining) return stopping_error();
      return submit_error(id.error(), kind_);
    }
    ids_.push_back(*id);
  }
  open_ = choices;
  return std::nullopt;
}

// A client that is behind gets no new chunks; its events wait in the mailbox. When that is full, or
// a write makes no progress in time, it is given up.
asio::awaitable<void> Answering::take_events() {
  while (open_ > 0 && !connection_.gone() && !failure_) {
    if (events_->overflowed()) {
      if (request_.stream) {
        connection_.give_up("left max_backlog_bytes of a stream unread");
      } else {
        failure_ =
            api_fail(500, "internal_error", "the server could not keep up with its engine").value();
      }
      co_return;
    }
    if (!request_.stream || connection_.backlog_bytes() <= backlog_limit()) {
      std::string out;
      for (const ChoiceEvent& item : events_->take()) take(item, out);
      if (request_.stream) connection_.send(out);
      if (open_ == 0 || failure_) co_return;
    }
    co_await connection_.wait(Connection::Clock::time_point::max());
  }
}

void Answering::take(const ChoiceEvent& item, std::string& out) {
  const RequestEvent& event = item.event;
  const int64_t index = item.prompt * request_.n + event.choice;
  AnswerChoice& choice = choices_[static_cast<size_t>(index)];
  usages_[static_cast<size_t>(index)] = event.usage;
  if (event.finish != FinishReason::kNone) {
    choice.finish = event.finish;
    --open_;
  }
  if (event.finish == FinishReason::kError) failure_ = api_error(event.error);
  if (event.finish == FinishReason::kCancelled) failure_ = stopping_error();
  if (request_.stream) {
    stream_event(index, event, out);
    return;
  }
  choice.text += event.text;
  if (request_.sampling.logprobs) {
    choice.tokens.insert(choice.tokens.end(), event.tokens.begin(), event.tokens.end());
  }
}

void Answering::stream_event(int64_t choice, const RequestEvent& event, std::string& out) {
  if (started_[static_cast<size_t>(choice)] == 0) {
    started_[static_cast<size_t>(choice)] = 1;
    writer_->append_start(out, choice);
    if (request_.echo) {
      writer_->append_text(out, choice, echoes_[static_cast<size_t>(choice / request_.n)], {});
    }
  }
  writer_->append_text(out, choice, event.text, event.tokens);
  if (event.finish == FinishReason::kStop || event.finish == FinishReason::kLength) {
    writer_->append_finish(out, choice, event.finish);
  }
}

// Prompts count once, whatever n is.
Usage Answering::total_usage() const {
  Usage total;
  for (size_t i = 0; i < usages_.size(); ++i) {
    total.output_tokens += usages_[i].output_tokens;
    if (static_cast<int64_t>(i) % request_.n != 0) continue;
    total.prompt_tokens += usages_[i].prompt_tokens;
    total.cached_tokens += usages_[i].cached_tokens;
  }
  return total;
}

void Answering::finish() {
  if (request_.stream) {
    std::string out;
    if (request_.include_usage) writer_->append_usage(out, total_usage());
    append_sse_done(out);
    connection_.send(out);
    connection_.end_stream();
    return;
  }
  for (size_t i = 0; request_.echo && i < choices_.size(); ++i) {
    choices_[i].text.insert(0, echoes_[i / static_cast<size_t>(request_.n)]);
  }
  HttpReply reply;
  reply.body = writer_->whole(choices_, total_usage());
  connection_.respond(reply);
}

void Answering::fail(const ApiError& error) {
  cancel_all();
  if (!connection_.streaming()) {
    connection_.respond(error);
    return;
  }
  std::string out;
  append_sse_error(out, error);
  connection_.send(out);
  connection_.end_stream();
}

// The engine ignores ids that have finished.
void Answering::cancel_all() {
  if (open_ > 0 || std::ssize(ids_) < std::ssize(choices_) / std::max<int64_t>(request_.n, 1)) {
    for (const RequestId id : ids_) context_.engine.cancel(id);
  }
  ids_.clear();
  open_ = 0;
}

}  // namespace

asio::awaitable<void> answer(Connection& connection, ServeContext& context, ApiKind kind) {
  Answering answering(connection, context, kind);
  co_await answering.run();
}

}  // namespace ashlar
