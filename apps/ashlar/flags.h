// Command lines: positional words and option fields (base/options.h), parsed by CLI11 behind this
// header, since CLI11 costs seconds of compile time wherever it is included.
//
// Order of precedence: flags, then the options file (--options FILE, JSON), then defaults. Unknown
// flags, flags given twice and values out of range are errors that name the flag.
#ifndef ASHLAR_APPS_FLAGS_H_
#define ASHLAR_APPS_FLAGS_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/options.h"

namespace ashlar {

struct Positional {
  std::string name;  // "MODEL"
  std::string text;
  std::string* value;
  bool required = false;
  bool* given = nullptr;  // told whether the word was there, also when it is empty
};

struct CommandLine {
  std::string verb;     // "run"
  std::string summary;  // one sentence for --help
  std::vector<Positional> positionals;
  OptionFields options;
};

enum class Parsed { kRun, kHelpShown };

// words: what follows the verb. Prints help itself when asked for it.
Result<Parsed> parse_command_line(CommandLine& line, const std::vector<std::string>& words);

}  // namespace ashlar

#endif  // ASHLAR_APPS_FLAGS_H_
