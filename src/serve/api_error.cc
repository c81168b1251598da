// The map from error codes to statuses, and the error object.
#include "serve/api_error.h"

#include "serve/json_append.h"

namespace ashlar {

std::string_view ApiError::type() const {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

tl::unexpected<ApiError> api_fail(int status, std::string code, std::string message) {
  ApiError error;
  error.status = status;
  error.code = std::move(code);
  error.message = std::move(message);
  if (status == 429 || status == 503) error.retry_after_seconds = 1;
  return tl::unexpected<ApiError>(std::move(error));
}

ApiError api_error(const Error& error) {
  const auto make = [&](int status, const char* code) {
    return api_fail(status, code, error.message).value();
  };
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
    case ErrorCode::kCorrupt:
    case ErrorCode::kOutOfRange:
      return make(400, "");
    case ErrorCode::kResourceExhausted:
      return make(400, "too_large");
    case ErrorCode::kNotFound:
      return make(404, "not_found");
    case ErrorCode::kUnavailable:
      return make(429, "queue_full");
    case ErrorCode::kCancelled:
      return make(503, "stopping");
    case ErrorCode::kIo:
    case ErrorCode::kDevice:
    case ErrorCode::kInternal:
      return make(500, "internal_error");
  }
  return make(500, "internal_error");
}

std::string error_json(const ApiError& error) {
  std::string out = R"({"error":{"message":)";
  append_json_string(out, error.message);
  out += fmt::format(R"(,"type":"{}","param":)", error.type());
  const auto text_or_null = [&out](std::string_view text) {
    if (text.empty()) {
      out += "null";
    } else {
      append_json_string(out, text);
    }
  };
  text_or_null(error.param);
  out += R"(,"code":)";
  text_or_null(error.code);
  out += "}}";
  return out;
}

std::string_view status_text(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Error";
  }
}

}  // namespace ashlar
