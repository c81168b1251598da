// Runs the built program as a user would: with arguments and a pipe, or on a pseudo-terminal.
//
// Both forms have a deadline and kill the process at it, so a hang is a failed test. Environment
// variables are inherited unless given.
#ifndef ASHLAR_TESTING_PROGRAM_H_
#define ASHLAR_TESTING_PROGRAM_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ashlar {

struct ProgramRun {
  std::vector<std::string> arguments;  // after the program's name
  std::string input;                   // what stdin delivers before it ends
  std::vector<std::pair<std::string, std::string>> environment;  // set on top of ours
  std::string output_file = {};  // where stdout goes instead of ProgramResult::out
  double timeout_seconds = 60;
};

struct ProgramResult {
  int exit_code = -1;  // 128 + signal when killed by one; -1 at the deadline
  std::string out;
  std::string err;
};

ProgramResult run_program(const ProgramRun& run);

// The program on a terminal of its own. What it prints to stdout and stderr comes mixed, as a
// person sees it.
class TerminalProgram {
 public:
  // Whether this user may open a pseudo-terminal; some containers and chroots give none.
  static bool available();
  explicit TerminalProgram(const std::vector<std::string>& arguments);
  ~TerminalProgram();
  TerminalProgram(const TerminalProgram&) = delete;
  TerminalProgram& operator=(const TerminalProgram&) = delete;

  void type(std::string_view text);  // "\x03" is Ctrl-C, "\x04" Ctrl-D
  // Waits until what was printed since the last call contains the text; false at the deadline or
  // the program's end.
  bool wait_for(std::string_view text, double timeout_seconds = 60);
  const std::string& seen() const { return seen_; }
  int wait_for_exit(double timeout_seconds = 60);  // as ProgramResult::exit_code

 private:
  bool read_some(double timeout_seconds);

  pid_t pid_ = -1;
  int terminal_ = -1;
  std::string seen_;
  size_t matched_ = 0;
};

// The program while it runs: a server. Its stderr is read, its stdout goes nowhere.
class BackgroundProgram {
 public:
  explicit BackgroundProgram(const std::vector<std::string>& arguments);
  ~BackgroundProgram();  // kills it
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;

  // Waits until stderr holds the text; false at the deadline or the program's end.
  bool wait_for(std::string_view text, double timeout_seconds = 60);
  const std::string& seen() const { return seen_; }  // all of stderr so far
  void send_signal(int number);
  int wait_for_exit(double timeout_seconds = 60);  // as ProgramResult::exit_code

 private:
  bool read_some(double timeout_seconds);

  pid_t pid_ = -1;
  int err_ = -1;
  std::string seen_;
};

}  // namespace ashlar

#endif  // ASHLAR_TESTING_PROGRAM_H_
