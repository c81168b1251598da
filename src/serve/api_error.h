// ApiError: a refusal as a client of the OpenAI API sees it: an HTTP status and the fields of its
// error object.
//
// The one place where the project's errors (base/error.h) become statuses. Messages say what, where
// and what to do; `param` names the field and `code` is for programs.
#ifndef ASHLAR_SERVE_API_ERROR_H_
#define ASHLAR_SERVE_API_ERROR_H_

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#include "base/error.h"

namespace ashlar {

struct [[nodiscard]] ApiError {
  int status = 400;
  std::string message;
  std::string param;            // the field at fault; empty: none
  std::string code;             // "model_not_found"; empty: none
  int retry_after_seconds = 0;  // 0: no Retry-After header

  // "invalid_request_error" and the like, by the status.
  std::string_view type() const;
};

template <class T>
using ApiResult = tl::expected<T, ApiError>;
using ApiStatus = ApiResult<void>;

// A 400 about one field: return refuse("top_p", "expected a number, got {}", ...). The message
// starts with the field's name.
template <class... Args>
[[nodiscard]] tl::unexpected<ApiError> refuse(std::string_view param,
                                              fmt::format_string<Args...> text, Args&&... args) {
  ApiError error;
  error.param = param;
  error.message = fmt::format("{}: {}", param, fmt::format(text, std::forward<Args>(args)...));
  return tl::unexpected<ApiError>(std::move(error));
}

[[nodiscard]] tl::unexpected<ApiError> api_fail(int status, std::string code, std::string message);

// What an error of the engine or of the text side is to a client. kUnavailable is a full queue here
// (429): that the server drains is known before anything is submitted.
ApiError api_error(const Error& error);

// {"error":{"message":...,"type":...,"param":...,"code":...}}
std::string error_json(const ApiError& error);

// "Not Found"; "Error" for a status that no one sends.
std::string_view status_text(int status);

}  // namespace ashlar

// ASHLAR_TRY and ASHLAR_ASSIGN for functions that return an ApiResult.
#define ASHLAR_API_TRY(expression)                                                 \
  do {                                                                             \
    if (auto ashlar_status = (expression); !ashlar_status.has_value()) {           \
      return tl::unexpected<::ashlar::ApiError>(std::move(ashlar_status).error()); \
    }                                                                              \
  } while (false)
#define ASHLAR_API_ASSIGN(target, expression) \
  ASHLAR_API_ASSIGN_INNER(ASHLAR_CONCAT(ashlar_result_, __LINE__), target, expression)
#define ASHLAR_API_ASSIGN_INNER(name, target, expression)               \
  auto name = (expression);                                             \
  if (!name.has_value()) {                                              \
    return tl::unexpected<::ashlar::ApiError>(std::move(name).error()); \
  }                                                                     \
  target = std::move(*name)

#endif  // ASHLAR_SERVE_API_ERROR_H_
