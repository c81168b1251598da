// fork, exec and poll behind program.h. The program is the one of the build that this test belongs
// to: two folders up from the test's own file. Failures of these calls end the test program; they
// say nothing about what is tested.
#include "testing/program.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "base/check.h"

namespace ashlar {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_left(Clock::time_point deadline) {
  return std::chrono::duration<double>(deadline - Clock::now()).count();
}

Clock::time_point deadline_in(double seconds) {
  return Clock::now() + std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
}

std::string program_path() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "ashlar")
      .string();
}

[[noreturn]] void exec_program(const std::vector<std::string>& arguments) {
  const std::string path = program_path();
  std::vector<char*> words = {const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  execv(path.c_str(), words.data());
  _exit(127);
}

// Reaps the child, killing it at the deadline.
int wait_exit(pid_t pid, Clock::time_point deadline) {
  int status = 0;
  while (true) {
    if (waitpid(pid, &status, WNOHANG) == pid) break;
    if (seconds_left(deadline) <= 0) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      return -1;
    }
    usleep(2000);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Moves what a pipe has to the end of text; false when the pipe has ended.
bool drain(int fd, std::string& text) {
  std::array<char, 4096> buffer;
  const ssize_t count = read(fd, buffer.data(), buffer.size());
  if (count <= 0) return false;
  text.append(buffer.data(), static_cast<size_t>(count));
  return true;
}

}  // namespace

ProgramResult run_program(const ProgramRun& run) {
  int in[2], out[2], err[2];
  CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    dup2(in[0], 0);
    dup2(run.output_file.empty() ? out[1] : open(run.output_file.c_str(), O_WRONLY), 1);
    dup2(err[1], 2);
    for (const auto& [name, value] : run.environment) setenv(name.c_str(), value.c_str(), 1);
    exec_program(run.arguments);
  }
  close(in[0]);
  close(out[1]);
  close(err[1]);
  signal(SIGPIPE, SIG_IGN);  // a program may end without reading its input
  // Inputs of tests fit into a pipe, so one write does not block.
  CHECK_LE(run.input.size(), 60000u);
  if (write(in[1], run.input.data(), run.input.size()) < 0) CHECK(errno == EPIPE);
  close(in[1]);

  ProgramResult result;
  const Clock::time_point deadline = deadline_in(run.timeout_seconds);
  std::array<pollfd, 2> fds = {pollfd{out[0], POLLIN, 0}, pollfd{err[0], POLLIN, 0}};
  while ((fds[0].fd >= 0 || fds[1].fd >= 0) && seconds_left(deadline) > 0) {
    poll(fds.data(), fds.size(), 100);
    if (fds[0].revents != 0 && !drain(out[0], result.out)) fds[0].fd = -1;
    if (fds[1].revents != 0 && !drain(err[0], result.err)) fds[1].fd = -1;
  }
  result.exit_code = wait_exit(pid, deadline);
  close(out[0]);
  close(err[0]);
  return result;
}

bool TerminalProgram::available() {
  int terminal = -1;
  int program_side = -1;
  if (openpty(&terminal, &program_side, nullptr, nullptr, nullptr) != 0) return false;
  close(terminal);
  close(program_side);
  return true;
}

TerminalProgram::TerminalProgram(const std::vector<std::string>& arguments) {
  pid_ = forkpty(&terminal_, nullptr, nullptr, nullptr);
  CHECK(pid_ >= 0);
  if (pid_ == 0) exec_program(arguments);
}

TerminalProgram::~TerminalProgram() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(terminal_);
}

void TerminalProgram::type(std::string_view text) {
  CHECK(write(terminal_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

bool TerminalProgram::read_some(double timeout_seconds) {
  pollfd fd = {terminal_, POLLIN, 0};
  poll(&fd, 1, static_cast<int>(timeout_seconds * 1000));
  return fd.revents == 0 || drain(terminal_, seen_);
}

bool TerminalProgram::wait_for(std::string_view text, double timeout_seconds) {
  const Clock::time_point deadline = deadline_in(timeout_seconds);
  while (true) {
    const size_t at = seen_.find(text, matched_);
    if (at != std::string::npos) {
      matched_ = at + text.size();
      return true;
    }
    if (seconds_left(deadline) <= 0 || !read_some(0.05)) return false;
  }
}

int TerminalProgram::wait_for_exit(double timeout_seconds) {
  const Clock::time_point deadline = deadline_in(timeout_seconds);
  while (seconds_left(deadline) > 0 && read_some(0.05)) {
  }
  const int code = wait_exit(pid_, deadline);
  pid_ = -1;
  return code;
}

BackgroundProgram::BackgroundProgram(const std::vector<std::string>& arguments) {
  int err[2];
  CHECK(pipe2(err, O_CLOEXEC) == 0);
  pid_ = fork();
  CHECK(pid_ >= 0);
  if (pid_ == 0) {
    dup2(open("/dev/null", O_RDWR), 0);
    dup2(0, 1);
    dup2(err[1], 2);
    exec_program(arguments);
  }
  close(err[1]);
  err_ = err[0];
}

BackgroundProgram::~BackgroundProgram() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(err_);
}

bool BackgroundProgram::read_some(double timeout_seconds) {
  pollfd fd = {err_, POLLIN, 0};
  poll(&fd, 1, static_cast<int>(timeout_seconds * 1000));
  return fd.revents == 0 || drain(err_, seen_);
}

bool BackgroundProgram::wait_for(std::string_view text, double timeout_seconds) {
  const Clock::time_point deadline = deadline_in(timeout_seconds);
  while (seen_.find(text) == std::string::npos) {
    if (seconds_left(deadline) <= 0 || !read_some(0.05)) return false;
  }
  return true;
}

void BackgroundProgram::send_signal(int number) { kill(pid_, number); }

int BackgroundProgram::wait_for_exit(double timeout_seconds) {
  const Clock::time_point deadline = deadline_in(timeout_seconds);
  while (seconds_left(deadline) > 0 && read_some(0.05)) {
  }
  const int code = wait_exit(pid_, deadline);
  pid_ = -1;
  return code;
}

}  // namespace ashlar
