// Answers a completion or a chat: prepares the prompt on a worker, submits to the engine, and turns
// events into one reply or a stream.
#ifndef ASHLAR_SERVE_ANSWER_H_
#define ASHLAR_SERVE_ANSWER_H_

#include "serve/asio.h"
#include "serve/connection.h"
#include "serve/openai_request.h"

namespace ashlar {

// Returns when the answer is queued or the client is gone; then nothing of it runs any more.
asio::awaitable<void> answer(Connection& connection, ServeContext& context, ApiKind kind);

}  // namespace ashlar

#endif  // ASHLAR_SERVE_ANSWER_H_
