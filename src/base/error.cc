// Names of error codes, as they appear in logs and in JSON.
// The names are part of the interface: they never change once released.
#include "base/error.h"

#include "base/check.h"

namespace ashlar {

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kOutOfRange:
      return "out_of_range";
    case ErrorCode::kResourceExhausted:
      return "resource_exhausted";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kDevice:
      return "device";
    case ErrorCode::kInternal:
      return "internal";
  }
  CHECK(false);
}

}  // namespace ashlar
