// The table of routes: who answers which method and path. A route is one function and one line of
// the table in routes.cc.
#ifndef ASHLAR_SERVE_ROUTES_H_
#define ASHLAR_SERVE_ROUTES_H_

#include "serve/asio.h"
#include "serve/connection.h"

namespace ashlar {

// Answers the connection's request, by its route or with 401, 404, 405 or 503.
asio::awaitable<void> run_route(Connection& connection, ServeContext& context);

}  // namespace ashlar

#endif  // ASHLAR_SERVE_ROUTES_H_
