// Sockets and the few rules of HTTP/1.1 that a client of ours needs.
#include "testing/http_client.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace ashlar {

std::string http_request(std::string_view method, std::string_view path, std::string_view body,
                         std::string_view headers) {
  std::string out = fmt::format("{} {} HTTP/1.1\r\nHost: test\r\n{}", method, path, headers);
  if (!body.empty() || method == "POST") out += fmt::format("Content-Length: {}\r\n", body.size());
  out += "\r\n";
  out += body;
  return out;
}

HttpClient::HttpClient(int64_t port, double timeout_seconds) : timeout_seconds_(timeout_seconds) {
  fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int small = 4096;
  setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) close();
}

HttpClient::~HttpClient() { close(); }

void HttpClient::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void HttpClient::half_close() { shutdown(fd_, SHUT_WR); }

void HttpClient::vanish() {
  const linger reset = {1, 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  close();
}

bool HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

bool HttpClient::fill() {
  if (!connected()) return false;
  pollfd poll_fd = {fd_, POLLIN, 0};
  if (poll(&poll_fd, 1, static_cast<int>(timeout_seconds_ * 1000)) <= 0) return false;
  char bytes[16384];
  const ssize_t count = recv(fd_, bytes, sizeof bytes, 0);
  if (count <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(count));
  return true;
}

bool HttpClient::closed_by_server() {
  while (fill()) {
  }
  pollfd poll_fd = {fd_, POLLIN, 0};
  char byte;
  return poll(&poll_fd, 1, 0) > 0 && recv(fd_, &byte, 1, 0) <= 0;
}

bool HttpClient::receive_line(std::string& line) {
  size_t end;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!fill()) return false;
  }
  line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return true;
}

HttpResponse HttpClient::receive_head() {
  HttpResponse response;
  std::string line;
  if (!receive_line(line) || !line.starts_with("HTTP/1.1 ")) return response;
  const int status = std::atoi(line.c_str() + 9);
  while (receive_line(line) && !line.empty()) {
    const size_t colon = line.find(": ");
    std::string name = line.substr(0, colon);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    response.headers[name] = colon == std::string::npos ? "" : line.substr(colon + 2);
  }
  response.status = status;
  const auto length = response.headers.find("content-length");
  chunked_ = response.headers.contains("transfer-encoding");
  until_close_ = !chunked_ && length == response.headers.end();
  body_left_ = chunked_ || until_close_ ? 0 : std::atoll(length->second.c_str());
  body_ended_ = status == 100 || (!chunked_ && !until_close_ && body_left_ == 0);
  events_.clear();
  return response;
}

bool HttpClient::receive_piece(std::string& body) {
  if (body_ended_) return false;
  std::string line;
  if (chunked_ && body_left_ == 0) {
    if (!receive_line(line)) return false;
    body_left_ = std::strtoll(line.c_str(), nullptr, 16);
    if (body_left_ == 0) {
      body_ended_ = receive_line(line);
      return false;
    }
  }
  if (buffer_.empty() && !fill()) {
    body_ended_ = until_close_;
    return false;
  }
  const size_t count = until_close_
                           ? buffer_.size()
                           : std::min<size_t>(buffer_.size(), static_cast<size_t>(body_left_));
  body += buffer_.substr(0, count);
  buffer_.erase(0, count);
  if (until_close_) return true;
  body_left_ -= static_cast<int64_t>(count);
  if (body_left_ > 0) return true;
  if (chunked_) return receive_line(line);
  body_ended_ = true;
  return true;
}

HttpResponse HttpClient::receive() {
  HttpResponse response = receive_head();
  if (response.status == 0) return response;
  while (receive_piece(response.body)) {
  }
  response.complete = body_ended_;
  return response;
}

std::optional<std::string> HttpClient::receive_event() {
  size_t end;
  while ((end = events_.find("\n\n")) == std::string::npos) {
    if (!receive_piece(events_)) return std::nullopt;
  }
  std::string event = events_.substr(0, end);
  events_.erase(0, end + 2);
  return event.starts_with("data: ") ? event.substr(6) : event;
}

}  // namespace ashlar
