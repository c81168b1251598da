// Server: the HTTP side of `ashlar serve`: event loops, the listening socket, the prompt workers.
//
// One loop a core, each with one thread and the connections that it was given; loop 0 also accepts.
// There is no thread a stream. The engine must outlive the server.
#ifndef ASHLAR_SERVE_SERVER_H_
#define ASHLAR_SERVE_SERVER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "engine/engine_thread.h"
#include "serve/prompt.h"
#include "serve/server_options.h"

namespace ashlar {

class Server {
 public:
  // Listens when it returns. options: nothing left at 0 but, perhaps, the port. A taken port and an
  // address that this machine lacks are kIo with host and port in the message.
  static Result<std::unique_ptr<Server>> start(EngineThread& engine, ServedModel model,
                                               ServerOptions options, std::string version);
  ~Server();  // stop()

  int64_t port() const;     // the one it listens on
  std::string url() const;  // "http://127.0.0.1:8080"

  // Requests that are being answered, and open connections. Any thread.
  int64_t exchanges() const;
  int64_t connections() const;
  // "" or why no request will be answered any more.
  std::string failure() const;

  // From now on no connection is accepted and new requests get 503; running answers go on.
  void drain();
  // Waits until none is left; false when time runs out.
  bool wait_idle(std::chrono::milliseconds patience);
  // Closes every connection, which cancels its request, and joins all threads but a prompt worker
  // that does not end: it touches nothing of the server or the model that others destroy.
  void stop();

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ashlar

#endif  // ASHLAR_SERVE_SERVER_H_
