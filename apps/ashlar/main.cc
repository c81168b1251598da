// The program: a table of verbs. What a verb does is in the file of its name.
// Nothing is set up before the verb is known, so --help and errors cost nothing.
#include <exception>
#include <string_view>

#include "console.h"
#include "verbs.h"

namespace {

using namespace ashlar;

struct Verb {
  std::string_view name;
  int (*function)(const Words& words);
  std::string_view summary;
};

constexpr Verb kVerbs[] = {
    {"run", run_verb, "answer a prompt, or chat on a terminal"},
    {"serve", serve_verb, "answer clients of the OpenAI API over HTTP"},
    {"inspect", inspect_verb, "show what a checkpoint holds and what would run"},
    {"bench", bench_verb, "measure how fast a model runs"},
    {"docs", docs_verb, "print generated documentation: options, support"},
};

std::string usage() {
  std::string out = "usage: ashlar VERB [...]; ashlar VERB --help tells more\n\n";
  for (const Verb& verb : kVerbs) out += fmt::format("  {:<10} {}\n", verb.name, verb.summary);
  return out;
}

int dispatch(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "--help" || name == "-h" || name == "help") {
    write_out(usage());
    return 0;
  }
  if (name == "--version") {
    print_out("ashlar {}\n", version());
    return 0;
  }
  for (const Verb& verb : kVerbs) {
    if (verb.name == name) return verb.function(Words(argv + 2, argv + argc));
  }
  if (!name.empty()) print_err("ashlar: there is no verb '{}'\n", name);
  write_err(usage());
  return 2;
}

}  // namespace

// Expected failures are values; what is thrown all the same (no memory, no thread) ends here.
int main(int argc, char** argv) {
  int code = 1;
  try {
    code = dispatch(argc, argv);
  } catch (const std::exception& error) {
    write_err("ashlar: ");
    write_err(error.what());
    write_err("\n");
  }
  if (const Status written = finish_output(); !written && code == 0) code = report(written.error());
  return code;
}
