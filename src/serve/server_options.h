// ServerOptions: every knob of the HTTP side, declared once. What the engine and the device have is
// theirs (engine/engine.h).
#ifndef ASHLAR_SERVE_SERVER_OPTIONS_H_
#define ASHLAR_SERVE_SERVER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/options.h"

namespace ashlar {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int64_t port = 8080;  // 0: any free one
  int64_t loops = 0;    // 0: one a usable core
  int64_t max_connections = 1024;
  int64_t max_body_bytes = 8 << 20;
  int64_t max_prompt_bytes = 4 << 20;
  int64_t prompt_workers = 2;
  int64_t prompt_queue = 256;
  int64_t prompt_timeout_ms = 10'000;
  int64_t request_timeout_ms = 30'000;
  int64_t idle_timeout_ms = 75'000;
  int64_t write_timeout_ms = 30'000;
  int64_t max_backlog_bytes = 1 << 20;
  int64_t drain_timeout_ms = 30'000;
  int64_t stall_timeout_ms = 60'000;
  std::string api_key;

  OptionFields fields();
};

}  // namespace ashlar

#endif  // ASHLAR_SERVE_SERVER_OPTIONS_H_
