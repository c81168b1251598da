// From Beast's message to ours, and what is refused about a head.
#include "serve/asio.h"
//
#include <boost/beast/core/string.hpp>

#include "serve/connection_input.h"

namespace ashlar {

namespace http = boost::beast::http;

namespace {

std::string text(boost::beast::string_view view) { return std::string(view.data(), view.size()); }

// Proxies are sent whole URLs: "http://host/path" asks for "/path".
std::string without_host(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    const std::string_view start = target.substr(0, scheme.size());
    if (!boost::beast::iequals({start.data(), start.size()}, {scheme.data(), scheme.size()})) {
      continue;
    }
    const size_t end = target.find_first_of("/?", scheme.size());
    if (end == scheme.size()) return std::string(target);  // no host
    if (end == std::string_view::npos) return "/";
    return (target[end] == '?' ? "/" : "") + std::string(target.substr(end));
  }
  return std::string(target);
}

}  // namespace

bool Connection::Input::skip_blank_lines() {
  const auto view = buffer.data();
  const std::string_view bytes(static_cast<const char*>(view.data()), view.size());
  size_t blank = 0;
  while (bytes.substr(blank, 2) == "\r\n") blank += 2;
  const bool more = bytes.size() > blank && bytes.substr(blank) != "\r";
  buffer.consume(blank);
  return more;
}

std::optional<ApiError> Connection::Input::check_head() const {
  const auto& head = parser->get();
  if (head.version() >= 11 && head.find(http::field::host) == head.end()) {
    return api_fail(400, "bad_http", "HTTP/1.1 requires a Host header").value();
  }
  const auto expect = head[http::field::expect];
  if (!expect.empty() && !boost::beast::iequals(expect, "100-continue")) {
    return api_fail(417, "bad_http", "only Expect: 100-continue is supported").value();
  }
  const auto coding = head[http::field::content_encoding];
  if (!coding.empty() && !boost::beast::iequals(coding, "identity")) {
    return api_fail(415, "bad_http", "the body must not be compressed").value();
  }
  if (!without_host(text(head.target())).starts_with('/')) {
    return api_fail(400, "bad_http", "the target of a request starts with / or http://").value();
  }
  return std::nullopt;
}

bool Connection::Input::wants_continue() const {
  // Not when the body has begun to arrive: the client did not wait.
  return parser->get().version() >= 11 && !parser->is_done() && buffer.size() == 0 &&
         !parser->get()[http::field::expect].empty();
}

HttpRequest Connection::Input::take_request() {
  HttpRequest request;
  request.keep_alive = parser->keep_alive();
  auto message = parser->release();
  request.method = text(message.method_string());
  const std::string target = without_host(text(message.target()));
  const size_t mark = target.find('?');
  request.path = percent_decode(target.substr(0, mark)).value_or(target);
  if (mark != std::string::npos) request.query = target.substr(mark + 1);
  request.authorization = text(message[http::field::authorization]);
  request.http_1_0 = message.version() < 11;
  request.body = std::move(message.body());
  return request;
}

}  // namespace ashlar
