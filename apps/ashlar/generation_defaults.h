// open_with_defaults: what `run` and `serve` do between their two readings of the command line.
//
// The first reading finds MODEL; its generation_config.json then becomes defaults under the flags
// of the second. A command has a model, options with sampling, and says where sampling came from.
#ifndef ASHLAR_APPS_GENERATION_DEFAULTS_H_
#define ASHLAR_APPS_GENERATION_DEFAULTS_H_

#include <nlohmann/json.hpp>
#include <string>

#include "console.h"
#include "environment.h"
#include "flags.h"
#include "model_session.h"
#include "run_options.h"
#include "verbs.h"

namespace ashlar {

// command_line(command) describes the command line that fills command.options.
template <class Command, class MakeCommandLine>
Result<OpenedModel> open_with_defaults(Command& command, const Words& words,
                                       const MakeCommandLine& command_line) {
  ASHLAR_ASSIGN(OpenedModel opened, open_model(command.model, read_environment()));
  const nlohmann::json* generation = opened.checkpoint->generation_config();
  if (generation == nullptr) return opened;
  command.options = {};
  ASHLAR_ASSIGN(const auto unused, apply_generation_config(*generation, command.options.sampling));
  command.sampling_source = "generation_config.json and flags";
  for (const std::string& key : unused) {
    print_err("ashlar: generation_config.json: '{}' has no effect here\n", key);
  }
  CommandLine again = command_line(command);
  ASHLAR_TRY(parse_command_line(again, words));
  return opened;
}

}  // namespace ashlar

#endif  // ASHLAR_APPS_GENERATION_DEFAULTS_H_
