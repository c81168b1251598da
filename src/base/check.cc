// The cold half of CHECK: says what failed and ends the process.
// It writes with stdio alone, so that it works when nothing else does any more.
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace ashlar {

void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  std::fprintf(stderr, "ashlar: check failed at %s:%d: %s%s%s\n", file, line, condition,
               detail.empty() ? "" : ": ", detail.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace ashlar
