// What the program writes: answers and tables to stdout, everything else to stderr.
//
// Neither call throws or blocks for ever: a signal that arrives while a pipe is full (Ctrl-C) drops
// the rest of that text. A failure to write stdout is remembered, and finish_output() reports it
// once, so that no verb loses its output with exit code 0.
#ifndef ASHLAR_APPS_CONSOLE_H_
#define ASHLAR_APPS_CONSOLE_H_

#include <fmt/format.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace ashlar {

void write_out(std::string_view text);
void write_err(std::string_view text);
Status finish_output();

template <class... Args>
void print_out(fmt::format_string<Args...> text, Args&&... args) {
  write_out(fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void print_err(fmt::format_string<Args...> text, Args&&... args) {
  write_err(fmt::format(text, std::forward<Args>(args)...));
}

// JSON text; bytes that are no UTF-8 become U+FFFD. indent -1: one line.
std::string json_text(const nlohmann::json& value, int indent = -1);

// Interrupts (SIGINT) since the last clear. install_interrupt_handler() makes Ctrl-C set a flag
// instead of ending the process.
void install_interrupt_handler();
bool interrupted();
void clear_interrupt();

}  // namespace ashlar

#endif  // ASHLAR_APPS_CONSOLE_H_
