// An HTTP request as routes see it, and a whole reply. Plain values: parsing is in connection.cc.
#ifndef ASHLAR_SERVE_HTTP_MESSAGE_H_
#define ASHLAR_SERVE_HTTP_MESSAGE_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/api_error.h"

namespace ashlar {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // percent-decoded, without the query
  std::string query;   // behind '?', as sent
  std::string authorization;
  std::string body;
  bool http_1_0 = false;
  bool keep_alive = true;
};

struct HttpReply {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
};

HttpReply error_reply(const ApiError& error);

// "/v1/models/a%2Fb" -> "/v1/models/a/b"; nothing for a broken escape.
std::optional<std::string> percent_decode(std::string_view text);

// "Mon, 30 Nov 2026 21:00:00 GMT"
std::string http_date(int64_t seconds_since_1970);

// The head of a response: status line and headers up to and with the empty line. more: further
// header lines, each with its line end.
std::string response_head(int status, std::string_view content_type, std::string_view more,
                          bool keep_alive);

}  // namespace ashlar

#endif  // ASHLAR_SERVE_HTTP_MESSAGE_H_
