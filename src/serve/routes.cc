// The table, the search in it, and the routes that answer at once. Completions are in answer.cc.
#include "serve/routes.h"

#include <algorithm>

#include "checkpoint/quote.h"
#include "serve/answer.h"
#include "serve/json_append.h"

namespace ashlar {

namespace {

struct Exchange {
  Connection& connection;
  ServeContext& context;
  std::string rest;  // of the path, for routes that end in "*"
};

using RouteFunction = asio::awaitable<void> (*)(Exchange& x);

std::string model_json(const ServeContext& context, const std::string& name) {
  std::string out = R"({"id":)";
  append_json_string(out, name);
  out += fmt::format(R"(,"object":"model","created":{},"owned_by":"ashlar","max_model_len":{}}})",
                     context.created, context.engine.options().max_context);
  return out;
}

asio::awaitable<void> get_models(Exchange& x) {
  HttpReply reply;
  reply.body = R"({"object":"list","data":[)";
  const std::vector<std::string>& names = x.context.model->names;
  for (size_t i = 0; i < names.size(); ++i) {
    reply.body += (i > 0 ? "," : "") + model_json(x.context, names[i]);
  }
  reply.body += "]}";
  x.connection.respond(reply);
  co_return;
}

asio::awaitable<void> get_model(Exchange& x) {
  const std::vector<std::string>& names = x.context.model->names;
  if (std::ranges::find(names, x.rest) == names.end()) {
    x.connection.respond(unknown_model(x.rest, *x.context.model));
    co_return;
  }
  HttpReply reply;
  reply.body = model_json(x.context, x.rest);
  x.connection.respond(reply);
}

// 503 when requests are refused, or taken and not computed. A full queue is no illness: 200.
asio::awaitable<void> get_health(Exchange& x) {
  const EngineStats stats = x.context.engine.stats();
  const std::string failure = x.context.engine.failure();
  const char* state = !failure.empty()     ? "failed"
                      : x.context.draining ? "draining"
                      : x.context.stalled  ? "stalled"
                                           : "ok";
  HttpReply reply;
  reply.status = std::string_view(state) == "ok" ? 200 : 503;
  reply.body = fmt::format(
      R"({{"status":"{}","running":{},"waiting":{},"pages_free":{},"pages_total":{},"steps":{})",
      state, stats.running, stats.waiting, stats.pages_free, stats.pages_total, stats.steps);
  if (!failure.empty()) {
    reply.body += R"(,"reason":)";
    append_json_string(reply.body, failure);
  }
  reply.body += '}';
  x.connection.respond(reply);
  co_return;
}

asio::awaitable<void> post_completions(Exchange& x) {
  return answer(x.connection, x.context, ApiKind::kCompletion);
}
asio::awaitable<void> post_chat(Exchange& x) {
  return answer(x.connection, x.context, ApiKind::kChat);
}

struct Route {
  std::string_view method;
  std::string_view path;  // a * at the end stands for any rest that is not empty
  RouteFunction function;
};

constexpr Route kRoutes[] = {
    {"GET", "/health", get_health},
    {"GET", "/v1/models", get_models},
    {"GET", "/v1/models/*", get_model},
    {"POST", "/v1/completions", post_completions},
    {"POST", "/v1/chat/completions", post_chat},
};

// What * stands for; nothing when the path does not fit.
std::optional<std::string> match(const Route& route, std::string_view path) {
  if (!route.path.ends_with('*')) {
    return path == route.path ? std::optional<std::string>("") : std::nullopt;
  }
  const std::string_view start = route.path.substr(0, route.path.size() - 1);
  if (!path.starts_with(start) || path.size() == start.size()) return std::nullopt;
  return std::string(path.substr(start.size()));
}

// Takes the same time wherever the texts differ.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  }
  return difference == 0;
}

bool authorized(const HttpRequest& request, const ServeContext& context) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string& key = context.options.api_key;
  if (key.empty() || !request.path.starts_with("/v1")) return true;
  const std::string_view given = request.authorization;
  return given.starts_with(kBearer) && same_secret(given.substr(kBearer.size()), key);
}

HttpReply not_allowed(const std::string& method, const std::string& path,
                      const std::string& allowed) {
  HttpReply reply =
      error_reply(api_fail(405, "method_not_allowed",
                           fmt::format("{} takes {}, not {}", path, allowed, quote_name(method)))
                      .value());
  reply.headers.emplace_back("Allow", allowed);
  return reply;
}

}  // namespace

asio::awaitable<void> run_route(Connection& connection, ServeContext& context) {
  const HttpRequest& request = connection.request();
  if (connection.crowded()) {
    connection.respond(api_fail(503, "too_many_connections",
                                "max_connections connections are open already; try again later")
                           .value());
    co_return;
  }
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  std::string allowed;
  for (const Route& route : kRoutes) {
    std::optional<std::string> rest = match(route, request.path);
    if (!rest) continue;
    allowed = route.method == "GET" ? "GET, HEAD" : route.method;
    if (route.method != method) continue;
    if (!authorized(request, context)) {
      connection.respond(
          api_fail(401, "invalid_api_key", "send the API key as 'Authorization: Bearer KEY'")
              .value());
      co_return;
    }
    if (!request.query.empty()) {
      connection.respond(
          api_fail(400, "", "query parameters have no effect here; send none").value());
      co_return;
    }
    // A local: g++ 12 destroys a temporary aggregate in an awaited call twice.
    Exchange exchange{connection, context, std::move(*rest)};
    co_await route.function(exchange);
    co_return;
  }
  if (!allowed.empty()) {
    connection.respond(not_allowed(request.method, request.path, allowed));
    co_return;
  }
  connection.respond(
      api_fail(404, "not_found",
               fmt::format("there is nothing at {}; see docs/serve.md", quote_name(request.path)))
          .value());
}

}  // namespace ashlar
