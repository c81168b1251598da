// The text of HTTP around a body.
#include "serve/http_message.h"

#include <charconv>
#include <ctime>

namespace ashlar {

HttpReply error_reply(const ApiError& error) {
  HttpReply reply;
  reply.status = error.status;
  reply.body = error_json(error);
  if (error.retry_after_seconds > 0) {
    reply.headers.emplace_back("Retry-After", fmt::format("{}", error.retry_after_seconds));
  }
  return reply;
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    int byte = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || error != std::errc() || end != digits.data() + 2 || byte < 0) {
      return std::nullopt;
    }
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

std::string http_date(int64_t seconds_since_1970) {
  const std::time_t time = seconds_since_1970;
  std::tm parts = {};
  gmtime_r(&time, &parts);
  char text[64];
  return std::string(text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts));
}

std::string response_head(int status, std::string_view content_type, std::string_view more,
                          bool keep_alive) {
  return fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\nContent-Type: {}\r\n{}Connection: {}\r\n\r\n",
                     status, status_text(status), http_date(std::time(nullptr)), content_type, more,
                     keep_alive ? "keep-alive" : "close");
}

}  // namespace ashlar
