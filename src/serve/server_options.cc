// Names, meanings and ranges of the server's knobs.
#include "serve/server_options.h"

namespace ashlar {

OptionFields ServerOptions::fields() {
  constexpr double kDay = 86'400'000;
  constexpr double kGigabyte = 1 << 30;
  OptionFields f;
  f.add("host", host, "address to listen on; 0.0.0.0 takes connections from everywhere");
  f.add("port", port, "port to listen on; 0: any free one").range(0, 65535);
  f.add("loops", loops, "event loops, each with a thread and connections of its own; 0: one a core")
      .range(0, 256);
  f.add("max_connections", max_connections, "open connections; more are answered with 503")
      .range(1, 1e6);
  f.add("max_body_bytes", max_body_bytes, "a longer request body is refused with 413")
      .range(1024, kGigabyte);
  f.add("max_prompt_bytes", max_prompt_bytes,
        "a longer text, also one that a template makes, is refused")
      .range(1, kGigabyte);
  f.add("prompt_workers", prompt_workers,
        "threads that parse requests, render templates and encode; with 2 or more one is kept for "
        "short requests")
      .range(1, 256);
  f.add("prompt_queue", prompt_queue, "requests that may wait for them; more are refused with 429")
      .range(1, 1e6);
  f.add("prompt_timeout_ms", prompt_timeout_ms, "a prompt that takes longer is refused with 503")
      .range(1, kDay);
  f.add("request_timeout_ms", request_timeout_ms, "time to send a whole request").range(1, kDay);
  f.add("idle_timeout_ms", idle_timeout_ms, "a connection without a request is closed after this")
      .range(1, kDay);
  f.add("write_timeout_ms", write_timeout_ms,
        "a client that takes nothing for so long is given up, and its request cancelled")
      .range(1, kDay);
  f.add("max_backlog_bytes", max_backlog_bytes,
        "a client that leaves so much of a stream unread is given up")
      .range(4096, kGigabyte);
  f.add("drain_timeout_ms", drain_timeout_ms,
        "at a stop, running answers get so long; then they are cancelled")
      .range(0, kDay);
  f.add("stall_timeout_ms", stall_timeout_ms,
        "/health fails when there is work and no step ends for so long")
      .range(100, kDay);
  f.add("api_key", api_key, "when set, /v1 wants it as a bearer token");
  return f;
}

}  // namespace ashlar
