// Reading: Beast parses heads and bodies; all that can be refused about a request before a route
// sees it is refused here. The only file that includes Beast. Writing is in connection_output.cc.
#include "serve/connection.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include "serve/asio.h"
//
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>

#include "base/check.h"
#include "serve/connection_input.h"
#include "serve/log.h"
#include "serve/loop.h"
#include "serve/routes.h"

namespace ashlar {

namespace http = boost::beast::http;

namespace {

constexpr uint32_t kMaxHeaderBytes = 16 << 10;
constexpr size_t kMaxLingerBytes = 32 << 20;
constexpr std::chrono::seconds kLinger{2};
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// Counts for as long as it lives, also when an exception ends a coroutine.
struct Counted {
  explicit Counted(std::atomic<int64_t>& c) : count(c) { count.fetch_add(1); }
  ~Counted() { count.fetch_sub(1); }
  std::atomic<int64_t>& count;
};

std::string peer_name(const asio::ip::tcp::socket& socket) {
  SocketError error;
  const auto end = socket.remote_endpoint(error);
  return error ? "?" : fmt::format("{}:{}", end.address().to_string(), end.port());
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, Loop& loop, ServeContext& context,
                       bool crowded)
    : socket_(std::move(socket)),
      loop_(loop),
      context_(context),
      crowded_(crowded),
      wake_(loop.io),
      input_(std::make_unique<Input>()),
      peer_(peer_name(socket_)) {
  context_.connections.fetch_add(1);
}

Connection::~Connection() {
  loop_.connections.erase(this);
  context_.connections.fetch_sub(1);
}

asio::io_context& Connection::io() const { return loop_.io; }

asio::awaitable<void> Connection::run() {
  const std::shared_ptr<Connection> self = shared_from_this();
  loop_.connections.insert(this);
  SocketError ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  while (true) {
    const bool complete = co_await read_request();
    if (!complete) break;
    const Clock::time_point start = Clock::now();
    const Counted exchange(context_.exchanges);
    answered_ = false;
    want_watch_ = true;
    watch();
    co_await run_route(*this, context_);
    CHECK(answered_ || gone_);
    const bool more = co_await finish_request();
    log_line(LogLevel::kDebug, "{} {} {} in {:.1f} ms{}", peer_, request_.method, request_.path,
             std::chrono::duration<double, std::milli>(Clock::now() - start).count(),
             gone_ ? ", the client went away" : "");
    if (!more) break;
  }
  co_await close_politely();
}

// Between requests: until one begins. False at the end.
asio::awaitable<bool> Connection::wait_for_request() {
  while (!input_->skip_blank_lines()) {
    if (context_.draining) co_return false;
    idle_ = true;
    read_deadline_ = Clock::now() + std::chrono::milliseconds(context_.options.idle_timeout_ms);
    SocketError error;
    const auto space = input_->buffer.prepare(Input::kAheadBytes);
    input_->buffer.commit(co_await socket_.async_read_some(space, into(error)));
    idle_ = false;
    if (error || timed_out_ || gone_) co_return false;
  }
  co_return true;
}

asio::awaitable<bool> Connection::read_request() {
  const bool begun = co_await wait_for_request();
  if (!begun) co_return false;
  read_deadline_ = Clock::now() + std::chrono::milliseconds(context_.options.request_timeout_ms);
  Input& input = *input_;
  input.parser.emplace();
  input.parser->header_limit(kMaxHeaderBytes);
  input.parser->body_limit(static_cast<uint64_t>(context_.options.max_body_bytes));
  SocketError error;
  co_await http::async_read_header(socket_, input.buffer, *input.parser, into(error));
  if (error) {
    co_await read_failed(error);
    co_return false;
  }
  const std::optional<ApiError> refusal = input.check_head();
  if (refusal) {
    co_await refuse_unread(*refusal);
    co_return false;
  }
  if (input.wants_continue()) {
    write(kContinue);
    co_await flush();
  }
  co_await http::async_read(socket_, input.buffer, *input.parser, into(error));
  if (error) {
    co_await read_failed(error);
    co_return false;
  }
  read_deadline_ = Clock::time_point::max();
  request_ = input.take_request();
  close_after_ = !request_.keep_alive || crowded_;
  co_return true;
}

// What a request that could not be read is answered with; nothing when the client is gone.
std::optional<ApiError> Connection::read_refusal(SocketError error) const {
  const ServerOptions& options = context_.options;
  if (timed_out_) {
    return api_fail(408, "request_timeout", "the request did not arrive within request_timeout_ms")
        .value();
  }
  if (error == http::error::body_limit) {
    return api_fail(413, "body_too_large",
                    fmt::format("the body is longer than {} bytes, which max_body_bytes allows",
                                options.max_body_bytes))
        .value();
  }
  if (error == http::error::header_limit) {
    return api_fail(431, "header_too_large",
                    fmt::format("the request's head is longer than {} bytes", kMaxHeaderBytes))
        .value();
  }
  const bool malformed =
      error.category() == http::make_error_code(http::error::bad_method).category();
  if (!malformed || error == http::error::end_of_stream || error == http::error::partial_message) {
    return std::nullopt;
  }
  return api_fail(400, "bad_http", "not a valid HTTP request: " + error.message()).value();
}

asio::awaitable<void> Connection::read_failed(SocketError error) {
  const std::optional<ApiError> refusal = read_refusal(error);
  if (refusal) {
    co_await refuse_unread(*refusal);
  } else {
    gone_ = true;
  }
}

// The last answer on this connection: what the client still sends will not be read as requests.
asio::awaitable<void> Connection::refuse_unread(const ApiError& error) {
  read_deadline_ = Clock::time_point::max();
  close_after_ = true;
  request_ = input_->parser->is_header_done() ? input_->take_request() : HttpRequest();
  respond(error);
  co_await flush();
}

// True when another request may follow on this connection.
asio::awaitable<bool> Connection::finish_request() {
  co_await flush();
  co_await unwatch();
  co_return !gone_ && !close_after_ && !context_.draining;
}

asio::awaitable<void> Connection::unwatch() {
  want_watch_ = false;
  while (watching_ && !gone_) {
    SocketError ignored;
    socket_.cancel(ignored);
    co_await wait(Clock::time_point::max());
  }
}

void Connection::watch() {
  if (watching_ || gone_ || !want_watch_) return;
  if (half_closed_) {
    watch_for_reset();
    return;
  }
  if (input_->buffer.size() >= Input::kMaxAheadBytes) return;
  watching_ = true;
  const auto space = input_->buffer.prepare(Input::kAheadBytes);
  socket_.async_read_some(space, [self = shared_from_this()](SocketError error, size_t bytes) {
    self->watching_ = false;
    self->input_->buffer.commit(bytes);
    if (error == asio::error::eof) {
      self->half_closed_ = true;
      self->probe();
    } else if (error && error != asio::error::operation_aborted) {
      self->gone_ = true;
    }
    self->watch();
    self->notify();
  });
}

// A client that closed looks the same as one that only sends no more, until something is sent to
// it: then its kernel resets. An interim response is something that every client of HTTP/1.1 has to
// skip. An older one is only asked by TCP, whose probes a kernel answers for another minute.
void Connection::probe() {
  const int seconds = 5;
  setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
  if (!answered_ && !request_.http_1_0) write(kContinue);
}

void Connection::watch_for_reset() {
  watching_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_error,
                     [self = shared_from_this()](SocketError error) {
                       self->watching_ = false;
                       if (error != asio::error::operation_aborted) self->gone_ = true;
                       self->notify();
                     });
}

// Closing a socket with unread input makes the kernel reset it, and the client may lose an answer
// that it has not read yet. So: say that nothing more comes, and read on for a while.
asio::awaitable<void> Connection::close_politely() {
  SocketError error;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  if (!error && !gone_ && !context_.stopping) {
    timed_out_ = false;
    read_deadline_ = Clock::now() + kLinger;
    std::vector<char> scratch(64 << 10);
    size_t total = 0;
    while (!error && !timed_out_ && total < kMaxLingerBytes) {
      total += co_await socket_.async_read_some(asio::buffer(scratch), into(error));
    }
  }
  socket_.close(error);
  gone_ = true;
}

void Connection::check_deadline(Clock::time_point now) {
  SocketError ignored;
  if (now >= write_deadline_) {
    write_deadline_ = Clock::time_point::max();
    give_up("took nothing for write_timeout_ms");
  }
  if (now >= read_deadline_) {
    read_deadline_ = Clock::time_point::max();
    timed_out_ = true;
    socket_.cancel(ignored);
  }
}

void Connection::drain() {
  if (idle_) abort();
}

void Connection::give_up(std::string_view why) {
  log_line(LogLevel::kInfo, "{} {}: given up", peer_, why);
  abort();
}

void Connection::abort() {
  gone_ = true;
  SocketError ignored;
  socket_.close(ignored);
  notify();
}

}  // namespace ashlar
