// Plain write(2) behind console.h: no buffer that could be lost and no stream state that stays
// broken.
#include "console.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

namespace ashlar {

namespace {

std::atomic<bool> interrupt_flag = false;
static_assert(std::atomic<bool>::is_always_lock_free);
int output_errno = 0;

void on_interrupt(int) { interrupt_flag.store(true); }

// 0, or the errno of the failure.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(fd, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<size_t>(count));
    } else if (errno != EINTR) {
      return errno;
    } else if (interrupted()) {
      return 0;
    }
  }
  return 0;
}

}  // namespace

void write_out(std::string_view text) {
  if (output_errno == 0) output_errno = write_all(STDOUT_FILENO, text);
}

void write_err(std::string_view text) { write_all(STDERR_FILENO, text); }

Status finish_output() {
  if (output_errno == 0) return {};
  return fail(ErrorCode::kIo, "stdout: cannot write: {}", std::strerror(output_errno));
}

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

void install_interrupt_handler() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigaction(SIGINT, &action, nullptr);  // no SA_RESTART: a read at the prompt returns
  signal(SIGPIPE, SIG_IGN);             // a reader that left is an error to report, not a death
}
bool interrupted() { return interrupt_flag.load(); }
void clear_interrupt() { interrupt_flag.store(false); }

}  // namespace ashlar
