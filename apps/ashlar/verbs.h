// The verbs of the program, one file each. A verb takes the words after its name and returns the
// process's exit code.
//
// Exit codes: 0 done; 1 failed; 2 the command line or the request was wrong; 130 interrupted.
#ifndef ASHLAR_APPS_VERBS_H_
#define ASHLAR_APPS_VERBS_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ashlar {

using Words = std::vector<std::string>;

int run_verb(const Words& words);
int serve_verb(const Words& words);
int inspect_verb(const Words& words);
int bench_verb(const Words& words);
int docs_verb(const Words& words);

std::string_view version();
std::string_view build_commit();  // "dc10de9b2f61"; "unknown" outside a git tree

// Prints "ashlar: message" to stderr and gives the exit code that fits.
int report(const Error& error);

// The same for a device that failed, then ends the process without freeing anything: the device may
// be stuck, and would never give its memory back.
[[noreturn]] void end_at_once(const Error& error);

}  // namespace ashlar

#endif  // ASHLAR_APPS_VERBS_H_
