// How a failure leaves the program: one line on stderr and an exit code.
// The mapping from error codes to exit codes is here and nowhere else.
#include <cstdlib>

#include "console.h"
#include "verbs.h"

namespace ashlar {

std::string_view version() { return ASHLAR_VERSION; }

int report(const Error& error) {
  print_err("ashlar: {}\n", error.message);
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kOutOfRange:
      return 2;
    case ErrorCode::kCancelled:
      return 130;
    default:
      return 1;
  }
}

void end_at_once(const Error& error) {
  const int code = report(error);
  if (const Status written = finish_output(); !written) report(written.error());
  std::_Exit(code);
}

}  // namespace ashlar
