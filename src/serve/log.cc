// spdlog behind log.h; no other file includes it, since it costs seconds of compile time.
#include "serve/log.h"

#include <spdlog/async.h>
#include <spdlog/sinks/ansicolor_sink.h>

#include <atomic>
#include <memory>
#include <mutex>

namespace ashlar {

namespace {

constexpr size_t kQueuedLines = 8192;

std::atomic<LogLevel> lowest = LogLevel::kOff;

struct Log {
  std::mutex mutex;
  std::shared_ptr<spdlog::details::thread_pool> thread;
  std::shared_ptr<spdlog::logger> logger;
};

Log& the_log() {
  static Log log;
  return log;
}

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    default:
      return spdlog::level::warn;
  }
}

}  // namespace

void set_log_level(LogLevel level) {
  Log& log = the_log();
  const std::lock_guard<std::mutex> lock(log.mutex);
  if (level != LogLevel::kOff && !log.logger) {
    log.thread = std::make_shared<spdlog::details::thread_pool>(kQueuedLines, 1);
    log.logger = std::make_shared<spdlog::async_logger>(
        "ashlar", std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>(), log.thread,
        spdlog::async_overflow_policy::overrun_oldest);
    log.logger->set_level(spdlog::level::debug);
    log.logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
    log.logger->flush_on(spdlog::level::debug);
  }
  lowest = level;
}

bool log_enabled(LogLevel level) { return level >= lowest.load(std::memory_order_relaxed); }

void write_log(LogLevel level, std::string_view line) {
  Log& log = the_log();
  std::shared_ptr<spdlog::logger> logger;
  {
    const std::lock_guard<std::mutex> lock(log.mutex);
    logger = log.logger;
  }
  if (logger) logger->log(level_of(level), spdlog::string_view_t(line.data(), line.size()));
}

void close_log() {
  lowest = LogLevel::kOff;
  Log& log = the_log();
  const std::lock_guard<std::mutex> lock(log.mutex);
  log.logger.reset();
  log.thread.reset();  // joins after the queue is written
}

}  // namespace ashlar
