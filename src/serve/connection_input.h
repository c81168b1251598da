// Connection::Input: Beast's side of a connection. Included by the files of Connection only, after
// Beast's headers.
#ifndef ASHLAR_SERVE_CONNECTION_INPUT_H_
#define ASHLAR_SERVE_CONNECTION_INPUT_H_

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>

#include "serve/connection.h"

namespace ashlar {

struct Connection::Input {
  // Requests sent ahead are read up to this many bytes while one is answered.
  static constexpr size_t kMaxAheadBytes = 64 << 10;
  static constexpr size_t kAheadBytes = 4 << 10;

  boost::beast::flat_buffer buffer;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser;

  // Drops empty lines, which some clients send behind a body. True when more follows.
  bool skip_blank_lines();
  // What is wrong with a head that was parsed.
  std::optional<ApiError> check_head() const;
  bool wants_continue() const;
  HttpRequest take_request();
};

}  // namespace ashlar

#endif  // ASHLAR_SERVE_CONNECTION_INPUT_H_
