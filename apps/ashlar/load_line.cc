// The text of the line and where it may be written.
#include "load_line.h"

#include <unistd.h>

#include <algorithm>

#include "console.h"

namespace ashlar {

std::string load_text(const LoadProgress& progress) {
  const double seconds = std::max(progress.seconds, 1e-9);
  const double done = static_cast<double>(progress.done_bytes) * 1e-9;
  if (progress.done_bytes == progress.total_bytes) {
    return fmt::format("loaded {:.2f} GB in {:.2f} s, {:.1f} GB/s", done, progress.seconds,
                       done / seconds);
  }
  return fmt::format("loading {:.2f} of {:.2f} GB, {:.1f} GB/s", done,
                     static_cast<double>(progress.total_bytes) * 1e-9, done / seconds);
}

LoadObserver load_line(bool always) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  return [terminal, always](const LoadProgress& progress) {
    const bool last = progress.done_bytes == progress.total_bytes;
    if (terminal) {
      print_err("\r{:<60}{}", load_text(progress), last ? "\n" : "");
    } else if (last && always) {
      print_err("{}\n", load_text(progress));
    }
    return true;
  };
}

}  // namespace ashlar
