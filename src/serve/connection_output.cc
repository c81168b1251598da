// Writing: a queue of bytes that goes out in the background, and the heads of responses.
#include "base/check.h"
#include "serve/asio.h"
#include "serve/connection.h"
#include "serve/log.h"

namespace ashlar {

void Connection::respond(const HttpReply& reply) {
  CHECK(!answered_ || !streaming_);
  answered_ = true;
  std::string more = fmt::format("Content-Length: {}\r\n", reply.body.size());
  for (const auto& [name, value] : reply.headers) more += fmt::format("{}: {}\r\n", name, value);
  if (context_.draining) close_after_ = true;
  out_ += response_head(reply.status, reply.content_type, more, !close_after_);
  if (request_.method != "HEAD") out_ += reply.body;
  write_some();
}

// A client of HTTP/1.0 knows no chunks; for it the end of the connection is the end of the stream.
void Connection::start_stream(std::string_view content_type) {
  answered_ = true;
  streaming_ = true;
  chunked_ = !request_.http_1_0;
  if (!chunked_ || context_.draining) close_after_ = true;
  // Proxies would otherwise hold events back.
  std::string more = "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
  if (chunked_) more += "Transfer-Encoding: chunked\r\n";
  out_ += response_head(200, content_type, more, !close_after_);
  write_some();
}

void Connection::send(std::string_view data) {
  CHECK(streaming_);
  if (data.empty()) return;  // an empty chunk would end the stream
  if (chunked_) out_ += fmt::format("{:x}\r\n", data.size());
  out_ += data;
  if (chunked_) out_ += "\r\n";
  write_some();
}

void Connection::end_stream() {
  if (chunked_) out_ += "0\r\n\r\n";
  streaming_ = false;
  write_some();
}

void Connection::write(std::string_view data) {
  out_ += data;
  write_some();
}

void Connection::write_some() {
  if (writing_ || gone_) return;
  if (sent_ == sending_.size()) {
    sending_.clear();
    sent_ = 0;
    std::swap(sending_, out_);
  }
  if (sending_.empty()) {
    write_deadline_ = Clock::time_point::max();
    notify();
    return;
  }
  writing_ = true;
  write_deadline_ = Clock::now() + std::chrono::milliseconds(context_.options.write_timeout_ms);
  const auto rest = asio::buffer(sending_.data() + sent_, sending_.size() - sent_);
  socket_.async_write_some(rest, [self = shared_from_this()](SocketError error, size_t bytes) {
    self->writing_ = false;
    self->sent_ += bytes;
    if (error && error != asio::error::operation_aborted) {
      self->gone_ = true;
      self->notify();
    }
    self->write_some();
  });
}

asio::awaitable<void> Connection::flush() {
  while (!gone_ && backlog_bytes() > 0) co_await wait(Clock::time_point::max());
}

asio::awaitable<void> Connection::wait(Clock::time_point until) {
  if (gone_) co_return;
  wake_.expires_at(until);
  SocketError ignored;
  co_await wake_.async_wait(into(ignored));
}

}  // namespace ashlar
