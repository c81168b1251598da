// Start, accept, tick and stop.
#include "serve/server.h"

#include <pthread.h>

#include <ctime>
#include <system_error>
#include <vector>

#include "base/check.h"
#include "serve/asio.h"
#include "serve/connection.h"
#include "serve/log.h"
#include "serve/loop.h"

namespace ashlar {

namespace {

using asio::ip::tcp;
using Clock = Connection::Clock;

constexpr std::chrono::milliseconds kTick{100};
// At a stop a worker gets so long to end; then it is left alone.
constexpr std::chrono::milliseconds kPromptPatience{200};
// Beyond max_connections so many more are told so; yet more are closed without a word.
constexpr int64_t kCrowdedConnections = 256;

void log_failure(std::exception_ptr failure) {
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    log_line(LogLevel::kWarning, "a connection ended: {}", error.what());
  }
}

}  // namespace

struct Server::State {
  State(EngineThread& engine, ServedModel model, ServerOptions options)
      : context(engine, std::move(model), std::move(options)) {}

  Status listen();
  Status start_threads();
  asio::awaitable<void> accept();
  void adopt(tcp::socket socket, Loop& loop);
  void tick(Loop& loop);
  void watch_engine(Clock::time_point now);
  void stop();

  ServeContext context;
  std::vector<std::unique_ptr<Loop>> loops;
  std::optional<tcp::acceptor> acceptor;  // of loop 0
  int64_t port = 0;
  size_t next_loop = 0;
  int64_t seen_steps = -1;  // loop 0: the engine's progress
  Clock::time_point seen_at;
  bool stopped = false;
};

Status Server::State::listen() {
  const ServerOptions& o = context.options;
  const auto failed = [&](std::string_view what, const SocketError& error) -> Status {
    return ashlar::fail(ErrorCode::kIo, "cannot listen on {} port {}: {}{}", o.host, o.port,
                        error.message(), what);
  };
  SocketError error;
  asio::io_context& io = loops.front()->io;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(o.host, fmt::format("{}", o.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    return failed("; --host takes an address of this machine, or 0.0.0.0 for all", error);
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.emplace(io);
  acceptor->open(endpoint.protocol(), error);
  // A server that was killed may start again at once. Not a second one on the same port.
  if (!error) acceptor->set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return failed(error == asio::error::address_in_use
                      ? "; another program has this port: stop it, or choose another with --port"
                      : "; choose another with --host and --port",
                  error);
  }
  port = acceptor->local_endpoint(error).port();
  return {};
}

Status Server::State::start_threads() {
  ASHLAR_ASSIGN(context.prompts,
                PromptPool::start(context.options.prompt_workers, context.options.prompt_queue));
  asio::co_spawn(loops.front()->io, accept(), log_failure);
  try {
    for (size_t i = 0; i < loops.size(); ++i) {
      Loop* loop = loops[i].get();
      tick(*loop);
      loop->thread = std::thread([loop, i] {
        pthread_setname_np(pthread_self(), fmt::format("loop {}", i).c_str());
        loop->io.run();
      });
    }
  } catch (const std::system_error& error) {
    return ashlar::fail(ErrorCode::kResourceExhausted, "an event loop cannot be started: {}",
                        error.what());
  }
  return {};
}

asio::awaitable<void> Server::State::accept() {
  asio::steady_timer pause(loops.front()->io);
  while (acceptor->is_open()) {
    Loop& loop = *loops[next_loop++ % loops.size()];
    tcp::socket socket(loop.io);
    SocketError error;
    co_await acceptor->async_accept(socket, into(error));
    if (error == asio::error::operation_aborted) co_return;
    if (error) {  // out of file descriptors, most likely: others must end first
      log_line(LogLevel::kWarning, "cannot accept a connection: {}", error.message());
      pause.expires_after(kTick);
      co_await pause.async_wait(into(error));
      continue;
    }
    adopt(std::move(socket), loop);
  }
}

void Server::State::adopt(tcp::socket socket, Loop& loop) {
  const int64_t open = context.connections;
  if (open >= context.options.max_connections + kCrowdedConnections) return;
  const bool crowded = open >= context.options.max_connections;
  const auto connection = std::make_shared<Connection>(std::move(socket), loop, context, crowded);
  // From here on it is its loop's alone.
  asio::post(loop.io, [connection, &loop] {
    asio::co_spawn(loop.io, [connection] { return connection->run(); }, log_failure);
  });
}

void Server::State::tick(Loop& loop) {
  loop.tick.expires_after(kTick);
  loop.tick.async_wait([this, &loop](SocketError error) {
    // A tick that was due when stop() cancelled the timer comes without an error.
    if (error || context.stopping) return;
    const Clock::time_point now = Clock::now();
    const std::vector<Connection*> all(loop.connections.begin(), loop.connections.end());
    for (Connection* connection : all) connection->check_deadline(now);
    if (&loop == loops.front().get()) watch_engine(now);
    tick(loop);
  });
}

// A step that never ends leaves everyone waiting: /health should not say otherwise.
void Server::State::watch_engine(Clock::time_point now) {
  const EngineStats stats = context.engine.stats();
  const bool busy = stats.running + stats.waiting > 0;
  if (!busy || stats.steps != seen_steps) {
    seen_steps = stats.steps;
    seen_at = now;
  }
  const bool stalled = now - seen_at > std::chrono::milliseconds(context.options.stall_timeout_ms);
  if (stalled != context.stalled.exchange(stalled) && stalled) {
    log_line(LogLevel::kWarning, "no step has ended for {} ms", context.options.stall_timeout_ms);
  }
}

void Server::State::stop() {
  if (std::exchange(stopped, true)) return;
  context.draining = true;
  context.stopping = true;
  if (context.prompts) context.prompts->stop(kPromptPatience);
  for (size_t i = 0; i < loops.size(); ++i) {
    Loop* loop = loops[i].get();
    asio::post(loop->io, [this, loop, i] {
      SocketError ignored;
      if (i == 0 && acceptor) acceptor->close(ignored);
      const std::vector<Connection*> all(loop->connections.begin(), loop->connections.end());
      for (Connection* connection : all) connection->abort();
      loop->tick.cancel();
      loop->work.reset();
    });
  }
  // A connection that was on its way to another loop ends there, since it sees that the server
  // stops.
  for (const auto& loop : loops) {
    if (loop->thread.joinable()) loop->thread.join();
  }
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}
Server::~Server() { stop(); }

Result<std::unique_ptr<Server>> Server::start(EngineThread& engine, ServedModel model,
                                              ServerOptions options, std::string version) {
  CHECK(options.loops > 0 && model.tokenizer && !model.names.empty());
  auto state = std::make_unique<State>(engine, std::move(model), std::move(options));
  State& s = *state;
  s.context.version = std::move(version);
  s.context.created = std::time(nullptr);
  for (int64_t i = 0; i < s.context.options.loops; ++i) {
    s.loops.push_back(std::make_unique<Loop>());
  }
  ASHLAR_TRY(s.listen());
  std::unique_ptr<Server> server(new Server(std::move(state)));
  ASHLAR_TRY(server->state_->start_threads());
  log_line(LogLevel::kInfo, "listening on {}", server->url());
  return server;
}

int64_t Server::port() const { return state_->port; }

std::string Server::url() const {
  const std::string& host = state_->context.options.host;
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port());
}

int64_t Server::exchanges() const { return state_->context.exchanges; }
int64_t Server::connections() const { return state_->context.connections; }
std::string Server::failure() const { return state_->context.engine.failure(); }

void Server::drain() {
  State& s = *state_;
  if (s.context.draining.exchange(true)) return;
  s.context.engine.drain();
  for (size_t i = 0; i < s.loops.size(); ++i) {
    Loop* loop = s.loops[i].get();
    asio::post(loop->io, [&s, loop, i] {
      SocketError ignored;
      if (i == 0 && s.acceptor) s.acceptor->close(ignored);
      const std::vector<Connection*> all(loop->connections.begin(), loop->connections.end());
      for (Connection* connection : all) connection->drain();
    });
  }
}

bool Server::wait_idle(std::chrono::milliseconds patience) {
  const Clock::time_point end = Clock::now() + patience;
  while (exchanges() > 0) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void Server::stop() { state_->stop(); }

}  // namespace ashlar
