// Expected failures as values: Error, Result<T> and the two macros that pass an error on.
//
// Whatever a user, a file or a device can cause is a Result; a mistake of ours is a CHECK
// (base/check.h). An Error is mapped once to an exit code (apps/) or an HTTP status (serve/), so
// its code says what kind of failure it is and its message says what, where and what to do. This
// file does not throw and does not log.
#ifndef ASHLAR_BASE_ERROR_H_
#define ASHLAR_BASE_ERROR_H_

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace ashlar {

enum class ErrorCode {
  kInvalidArgument,    // the caller's value is wrong: a flag, a field, a prompt
  kNotFound,           // a file, a model or a tensor that should be there is not
  kUnsupported,        // understood, and refused by name
  kCorrupt,            // a file contradicts itself or its format
  kOutOfRange,         // beyond a limit that the message names
  kResourceExhausted,  // memory, pages, queue: the message names the number to change
  kUnavailable,        // not now: stopping, overloaded
  kCancelled,          // the caller withdrew
  kIo,                 // the operating system refused
  kDevice,             // the device failed; the process ends
  kInternal,           // a failure we did not foresee
};

std::string_view error_code_name(ErrorCode code);

struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

// return fail(ErrorCode::kCorrupt, "{}: tensor {} ends past the file", path, name);
template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> text,
                                         Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(text, std::forward<Args>(args)...)});
}

// The same failure with a place put before its message: "model.gguf: ...".
[[nodiscard]] inline tl::unexpected<Error> fail_in(std::string_view place, const Error& error) {
  return tl::unexpected<Error>(Error{error.code, fmt::format("{}: {}", place, error.message)});
}

}  // namespace ashlar

#define ASHLAR_CONCAT_INNER(a, b) a##b
#define ASHLAR_CONCAT(a, b) ASHLAR_CONCAT_INNER(a, b)

// ASHLAR_TRY(expression): returns the error of a Result from the enclosing function, drops the
// value.
#define ASHLAR_TRY(expression)                                                  \
  do {                                                                          \
    if (auto ashlar_status = (expression); !ashlar_status.has_value()) {        \
      return tl::unexpected<::ashlar::Error>(std::move(ashlar_status).error()); \
    }                                                                           \
  } while (false)

// ASHLAR_ASSIGN(auto x, expression): declares or assigns the value, or returns the error.
#define ASHLAR_ASSIGN(target, expression) \
  ASHLAR_ASSIGN_INNER(ASHLAR_CONCAT(ashlar_result_, __LINE__), target, expression)
#define ASHLAR_ASSIGN_INNER(name, target, expression)                \
  auto name = (expression);                                          \
  if (!name.has_value()) {                                           \
    return tl::unexpected<::ashlar::Error>(std::move(name).error()); \
  }                                                                  \
  target = std::move(*name)

#endif  // ASHLAR_BASE_ERROR_H_
