// The program: a table of verbs. What a verb does is in the file of its name.
// Nothing is set up before the verb is known, so --help and errors cost nothing.
#include <cstdio>
#include <string_view>

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
    {"inspect", inspect_verb, "show what a checkpoint holds and what would run"},
    {"docs", docs_verb, "print generated documentation: options, support"},
};

void usage(std::FILE* out) {
  fmt::print(out, "usage: ashlar VERB [...]; ashlar VERB --help tells more\n\n");
  for (const Verb& verb : kVerbs) fmt::print(out, "  {:<10} {}\n", verb.name, verb.summary);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "--help" || name == "-h" || name == "help") {
    usage(stdout);
    return 0;
  }
  if (name == "--version") {
    fmt::print("ashlar {}\n", ashlar::version());
    return 0;
  }
  for (const Verb& verb : kVerbs) {
    if (verb.name == name) return verb.function(Words(argv + 2, argv + argc));
  }
  if (!name.empty()) fmt::print(stderr, "ashlar: there is no verb '{}'\n", name);
  usage(stderr);
  return 2;
}
