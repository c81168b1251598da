// The server's log: lines with a time and a level on stderr, written by a thread of their own, so
// that a full pipe stops no event loop (lines are then dropped, oldest first).
#ifndef ASHLAR_SERVE_LOG_H_
#define ASHLAR_SERVE_LOG_H_

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace ashlar {

enum class LogLevel { kDebug, kInfo, kWarning, kOff };

// Lines below the level are dropped; before the first call all are. Any thread.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
void write_log(LogLevel level, std::string_view line);

template <class... Args>
void log_line(LogLevel level, fmt::format_string<Args...> text, Args&&... args) {
  if (log_enabled(level)) write_log(level, fmt::format(text, std::forward<Args>(args)...));
}

// Waits for what was logged, at the end of the program.
void close_log();

}  // namespace ashlar

#endif  // ASHLAR_SERVE_LOG_H_
