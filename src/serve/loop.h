// Loop: one event loop with its thread and its connections. Connections are touched on that thread
// only; other threads post.
#ifndef ASHLAR_SERVE_LOOP_H_
#define ASHLAR_SERVE_LOOP_H_

#include <set>
#include <thread>

#include "serve/asio.h"

namespace ashlar {

class Connection;

struct Loop {
  std::set<Connection*> connections;  // outlives io, whose end ends the last of them
  asio::io_context io{1};             // one thread runs it
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  asio::steady_timer tick{io};
  std::thread thread;
};

}  // namespace ashlar

#endif  // ASHLAR_SERVE_LOOP_H_
