// A handler that writes to a pipe: the only thing it may do safely that also wakes a poll().
#include "stop_signal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/check.h"

namespace ashlar {

namespace {

constexpr int kInterrupted = 130;

int pipe_ends[2] = {-1, -1};
std::atomic<int> signals_seen = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void on_stop_signal(int) {
  if (signals_seen.fetch_add(1) > 0) _exit(kInterrupted);
  const int before = errno;
  if (write(pipe_ends[1], "x", 1) < 0) _exit(kInterrupted);
  errno = before;
}

}  // namespace

void install_stop_signals() {
  CHECK(pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) == 0);
  struct sigaction action = {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

bool wait_stop_signal(std::chrono::milliseconds patience) {
  if (signals_seen.load() > 0) return true;
  pollfd fd = {pipe_ends[0], POLLIN, 0};
  poll(&fd, 1, static_cast<int>(patience.count()));
  return signals_seen.load() > 0;
}

}  // namespace ashlar
