// Binds option fields to CLI11. Values are parsed by base/options, so that a flag and a file accept
// the same text and fail with the same message; CLI11 does the words, the grouping and --help.
#include "flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/json_text.h"
#include "checkpoint/mapped_file.h"
#include "console.h"

namespace ashlar {

namespace {

constexpr size_t kMaxOptionsBytes = 1 << 20;

std::string help_text(const OptionField& field) {
  std::string text = field.text;
  const std::string range = field.range_text();
  if (!range.empty()) text += fmt::format(" [{}]", range);
  const std::string value = field.value_text();
  if (!field.is_switch() && !value.empty()) text += fmt::format(" (default {})", value);
  return text;
}

Status read_options_file(OptionFields& fields, const std::string& path) {
  ASHLAR_ASSIGN(const std::string text, read_text_file(path, kMaxOptionsBytes));
  ASHLAR_ASSIGN(const nlohmann::json object, parse_json_object(text, path));
  return set_options(fields, object, path);
}

// The words that CLI11 collected for each field; applied after the options file.
using Collected = std::map<const OptionField*, std::vector<std::string>>;

void add_field(CLI::App& app, const OptionField& field, Collected& collected) {
  const std::string help = help_text(field);
  if (field.is_switch()) {
    const auto name = field.flag() + ",!--no-" + field.flag().substr(2);
    app.add_flag_function(
        name,
        [&collected, &field](int64_t count) { collected[&field] = {count > 0 ? "true" : "false"}; },
        help);
    return;
  }
  CLI::Option* option = app.add_option(field.flag(), collected[&field], help);
  option->type_name(field.is_list() ? "TEXT ..." : "VALUE")->expected(1)->allow_extra_args(false);
  option->multi_option_policy(field.is_list() ? CLI::MultiOptionPolicy::TakeAll
                                              : CLI::MultiOptionPolicy::Throw);
}

Status apply_words(OptionFields& fields, const Collected& collected) {
  for (const OptionField& field : fields.list()) {
    const auto words = collected.find(&field);
    if (words == collected.end() || words->second.empty()) continue;
    if (field.is_list()) std::get<std::vector<std::string>*>(field.target)->clear();
    for (const std::string& word : words->second) ASHLAR_TRY(set_option(field, word));
  }
  return {};
}

}  // namespace

Result<Parsed> parse_command_line(CommandLine& line, const std::vector<std::string>& words) {
  CLI::App app(line.summary, "ashlar " + line.verb);
  app.set_help_flag("-h,--help", "this text");
  std::vector<const CLI::Option*> options;
  for (const Positional& positional : line.positionals) {
    CLI::Option* option = app.add_option(positional.name, *positional.value, positional.text);
    option->required(positional.required)->type_name("")->allow_extra_args(false)->expected(1);
    options.push_back(option);
  }
  std::string options_file;
  app.add_option("--options", options_file, "JSON file of options; flags win over it")
      ->type_name("FILE");
  Collected collected;
  for (const OptionField& field : line.options.list()) add_field(app, field, collected);
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    write_out(app.help());
    return Parsed::kHelpShown;
  } catch (const CLI::ParseError& error) {
    return fail(ErrorCode::kInvalidArgument, "{}; see ashlar {} --help", error.what(), line.verb);
  }
  for (size_t i = 0; i < line.positionals.size(); ++i) {
    if (line.positionals[i].given != nullptr) *line.positionals[i].given = options[i]->count() > 0;
  }
  if (!options_file.empty()) ASHLAR_TRY(read_options_file(line.options, options_file));
  ASHLAR_TRY(apply_words(line.options, collected));
  return Parsed::kRun;
}

}  // namespace ashlar
