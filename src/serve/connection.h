// Connection: one client's socket. Reads requests one after the other, has each answered by a
// route, writes the answers.
//
// It lives on one event loop; every function is called on that loop's thread. While a route works,
// the socket is watched, so that a client that vanishes is noticed; requests that a client
// sends ahead (pipelining) wait in the buffer up to a bound. The end of what a client sends is not
// the end of the client: it may wait for its answer. Output is queued and written in the
// background; whoever streams looks at backlog_bytes(). Deadlines are checked by the loop's tick.
#ifndef ASHLAR_SERVE_CONNECTION_H_
#define ASHLAR_SERVE_CONNECTION_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/api_error.h"
#include "serve/asio.h"
#include "serve/http_message.h"
#include "serve/serve_context.h"

namespace ashlar {

struct Loop;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  // crowded: beyond max_connections; its requests are answered with 503.
  Connection(asio::ip::tcp::socket socket, Loop& loop, ServeContext& context, bool crowded);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  asio::awaitable<void> run();

  // For routes. Each answers once: respond(), or start_stream() and end_stream().
  const HttpRequest& request() const { return request_; }
  std::string take_body() { return std::move(request_.body); }
  asio::io_context& io() const;
  bool crowded() const { return crowded_; }
  void respond(const HttpReply& reply);
  void respond(const ApiError& error) { respond(error_reply(error)); }
  void start_stream(std::string_view content_type);
  void send(std::string_view data);
  void end_stream();
  bool streaming() const { return streaming_; }
  size_t backlog_bytes() const { return out_.size() + sending_.size() - sent_; }
  bool gone() const { return gone_; }  // nothing that is sent will arrive
  void give_up(std::string_view why);  // closes at once
  // Suspends until notify(), the end of the client or the deadline; may also return without reason.
  asio::awaitable<void> wait(Clock::time_point until);
  void notify() { wake_.cancel(); }

  // For the loop.
  void check_deadline(Clock::time_point now);
  void drain();  // closes when no request is being answered
  void abort();  // closes at once

 private:
  struct Input;  // Beast's buffer and parser

  asio::awaitable<bool> read_request();
  asio::awaitable<bool> wait_for_request();
  asio::awaitable<void> read_failed(SocketError error);
  asio::awaitable<void> refuse_unread(const ApiError& error);
  std::optional<ApiError> read_refusal(SocketError error) const;
  asio::awaitable<bool> finish_request();
  asio::awaitable<void> close_politely();
  asio::awaitable<void> flush();
  asio::awaitable<void> unwatch();
  void watch();
  void watch_for_reset();
  void probe();
  void write_some();
  void write(std::string_view data);

  asio::ip::tcp::socket socket_;
  Loop& loop_;
  ServeContext& context_;
  const bool crowded_;
  asio::steady_timer wake_;
  std::unique_ptr<Input> input_;
  HttpRequest request_;
  std::string peer_;

  Clock::time_point read_deadline_ = Clock::time_point::max();
  Clock::time_point write_deadline_ = Clock::time_point::max();
  bool idle_ = false;       // between requests
  bool timed_out_ = false;  // the read deadline passed
  bool gone_ = false;
  bool half_closed_ = false;  // the client sends no more, and may still read
  bool want_watch_ = false, watching_ = false;

  std::string out_;      // to be written
  std::string sending_;  // being written, from sent_ on
  size_t sent_ = 0;
  bool writing_ = false;
  bool close_after_ = false;  // this answer is the last one
  bool streaming_ = false, chunked_ = false, answered_ = false;
};

}  // namespace ashlar

#endif  // ASHLAR_SERVE_CONNECTION_H_
