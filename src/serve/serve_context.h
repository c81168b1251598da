// ServeContext: what all connections of a server share. Everything in it may be used from any
// thread.
#ifndef ASHLAR_SERVE_SERVE_CONTEXT_H_
#define ASHLAR_SERVE_SERVE_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/engine_thread.h"
#include "serve/prompt.h"
#include "serve/prompt_pool.h"
#include "serve/server_options.h"

namespace ashlar {

struct ServeContext {
  ServeContext(EngineThread& e, ServedModel m, ServerOptions o)
      : engine(e),
        model(std::make_shared<const ServedModel>(std::move(m))),
        token_bytes(model->tokenizer->most_text_bytes()),
        options(std::move(o)) {}

  EngineThread& engine;
  const std::shared_ptr<const ServedModel> model;
  const int64_t token_bytes;  // Tokenizer::most_text_bytes()
  const ServerOptions options;
  std::string version;  // of the program, for system_fingerprint
  int64_t created = 0;  // when the server started, seconds since 1970
  std::unique_ptr<PromptPool> prompts;

  std::atomic<bool> draining = false;
  std::atomic<bool> stopping = false;    // connections close at once
  std::atomic<bool> stalled = false;     // there is work, and no step has ended for too long
  std::atomic<int64_t> connections = 0;  // open
  std::atomic<int64_t> exchanges = 0;    // requests that are being answered

  // A new id with this prefix; unlike those of other servers and of earlier runs.
  std::string new_id(std::string_view prefix);

 private:
  std::atomic<uint64_t> next_id_ = 0;
};

}  // namespace ashlar

#endif  // ASHLAR_SERVE_SERVE_CONTEXT_H_
