// The part of Boost.Asio that the server uses, included in one place: the umbrella headers cost a
// minute of compile time, and 1.74 with g++ 12 needs <utility> before any of them.
// Beast is included by the one file that parses HTTP (serve/connection.cc).
#ifndef ASHLAR_SERVE_ASIO_H_
#define ASHLAR_SERVE_ASIO_H_

// Fences around every handler add nothing to the mutex of a loop that one thread runs, and the
// thread sanitizer does not know them.
#define BOOST_ASIO_DISABLE_FENCED_BLOCK 1

#include <utility>
//
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace ashlar {

namespace asio = boost::asio;
using SocketError = boost::system::error_code;

// co_await stream.async_something(..., into(error)): failures are values, nothing is thrown.
inline auto into(SocketError& error) { return asio::redirect_error(asio::use_awaitable, error); }

}  // namespace ashlar

#endif  // ASHLAR_SERVE_ASIO_H_
