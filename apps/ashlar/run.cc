// ashlar run MODEL [PROMPT]: one answer to PROMPT, to what a pipe delivers, or a chat with history
// on a terminal.
//
// Text streams to stdout and everything else goes to stderr, so a pipe gets the answer alone.
// Ctrl-C stops the answer; in a chat the next one may follow, elsewhere the exit code is 130.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "answer.h"
#include "flags.h"
#include "trace/op_table.h"
#include "verbs.h"

namespace ashlar {

namespace {

struct RunCommand {
  std::string model;
  std::string prompt;
  RunOptions options;
  std::string sampling_source = "ashlar's defaults and flags";
};

CommandLine command_line(RunCommand& command) {
  return {
      "run",
      "Answers a prompt, or chats on a terminal.",
      {{"MODEL", "a folder, a .gguf file, or a hub id in the local cache", &command.model, true},
       {"PROMPT", "the prompt; without it stdin is read, a terminal starts a chat", &command.prompt,
        false}},
      command.options.fields()};
}

Result<Request> make_request(const ModelSession& session, const RunOptions& options,
                             std::vector<int32_t> prompt) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling = options.sampling;
  for (const std::string& text : options.logit_bias) {
    ASHLAR_ASSIGN(const TokenBias bias, parse_token_bias(text));
    request.sampling.logit_bias.push_back(bias);
  }
  for (const std::string& text : options.stop_tokens) {
    int64_t id = -1;
    OptionFields field;
    field.add("stop_token", id, "").range(0, session.tokenizer().vocab_size() - 1);
    ASHLAR_TRY(set_option(field.list().front(), text));
    request.stop_tokens.push_back(static_cast<int32_t>(id));
  }
  request.stop = options.stop;
  request.ignore_eos = options.ignore_eos;
  request.min_tokens = options.min_tokens;
  request.max_tokens = options.max_tokens;
  return request;
}

nlohmann::json first_messages(const RunOptions& options) {
  nlohmann::json messages = nlohmann::json::array();
  if (!options.system.empty())
    messages.push_back({{"role", "system"}, {"content", options.system}});
  return messages;
}

Result<std::vector<int32_t>> encode_chat(const ModelSession& session, const RunOptions& options,
                                         const nlohmann::json& messages) {
  ChatInput input;
  input.messages_json = messages.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  input.variables_json = options.template_kwargs;
  const Tokenizer& tokenizer = session.tokenizer();
  if (tokenizer.bos_id()) input.bos_token = std::string(tokenizer.bos_text());
  if (tokenizer.eos_id()) input.eos_token = std::string(tokenizer.eos_text());
  ASHLAR_ASSIGN(const std::string text, session.opened->chat_template->render(input));
  return tokenizer.encode(text, {.add_special = false, .parse_special = true});
}

Result<std::vector<int32_t>> encode_prompt(const ModelSession& session, const RunOptions& options,
                                           const std::string& prompt) {
  if (options.raw) {
    return session.tokenizer().encode(prompt, {.add_special = true, .parse_special = true});
  }
  nlohmann::json messages = first_messages(options);
  messages.push_back({{"role", "user"}, {"content", prompt}});
  return encode_chat(session, options, messages);
}

void print_text(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

nlohmann::json settings_json(RunCommand& command) {
  nlohmann::json settings = options_json(command.options.fields());
  settings["sampling_source"] = command.sampling_source;
  return settings;
}

Status print_answer(ModelSession& session, RunCommand& command, const Answer& answer) {
  const RunOptions& options = command.options;
  if (options.json) {
    const nlohmann::json out = answer_json(session, answer, settings_json(command));
    fmt::print("{}\n", out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (answer.text.empty() || answer.text.back() != '\n') {
    print_text("\n");
  }
  std::fflush(stdout);
  if (std::ferror(stdout)) return fail(ErrorCode::kIo, "stdout: the answer could not be written");
  if (options.stats) {
    fmt::print(stderr, "settings: {}\n{}", settings_json(command).dump(),
               answer_stats(session, answer));
  }
  return {};
}

Result<Answer> ask(ModelSession& session, RunCommand& command, std::vector<int32_t> prompt) {
  ASHLAR_ASSIGN(Request request, make_request(session, command.options, std::move(prompt)));
  ASHLAR_ASSIGN(Answer out, answer(session, std::move(request), [&](std::string_view text) {
                  if (!command.options.json) print_text(text);
                }));
  ASHLAR_TRY(print_answer(session, command, out));
  return out;
}

// A line of the chat; a backslash at its end continues it. False at the end of the input.
bool read_line(std::string& line) {
  line.clear();
  std::string part;
  while (true) {
    fmt::print(stderr, "{}", line.empty() ? "> " : ". ");
    std::fflush(stderr);
    if (!std::getline(std::cin, part)) return false;
    if (part.empty() || part.back() != '\\') break;
    line += part.substr(0, part.size() - 1) + "\n";
  }
  line += part;
  return true;
}

Status chat(ModelSession& session, RunCommand& command) {
  fmt::print(stderr,
             "Chat with {}. /reset forgets the history, /exit or Ctrl-D ends, Ctrl-C stops an "
             "answer, a backslash at the end of a line continues it.\n",
             command.model);
  nlohmann::json messages = first_messages(command.options);
  std::string line;
  while (true) {
    clear_interrupt();
    if (!read_line(line)) {
      if (!interrupted()) break;
      std::cin.clear();
      std::clearerr(stdin);
      fmt::print(stderr, "\n");
      continue;
    }
    if (line == "/exit") break;
    if (line == "/reset") {
      messages = first_messages(command.options);
      continue;
    }
    if (line.empty()) continue;
    if (line.front() == '/' && line.find(' ') == std::string::npos) {
      fmt::print(stderr, "there is no command {}; /reset and /exit exist\n", line);
      continue;
    }
    messages.push_back({{"role", "user"}, {"content", line}});
    Result<std::vector<int32_t>> prompt = encode_chat(session, command.options, messages);
    Result<Answer> out =
        prompt ? ask(session, command, std::move(*prompt)) : tl::unexpected<Error>(prompt.error());
    if (!out) {
      // The chat goes on without the turn that failed, for example because the history outgrew the
      // context.
      report(out.error());
      messages.erase(messages.size() - 1);
      continue;
    }
    messages.push_back({{"role", "assistant"}, {"content", out->text}});
  }
  fmt::print(stderr, "\n");
  return {};
}

// The first parse finds MODEL; its generation_config.json then becomes defaults under the flags of
// the second.
Result<OpenedModel> open_with_defaults(RunCommand& command, const Words& words) {
  ASHLAR_ASSIGN(OpenedModel opened, open_model(command.model, read_environment()));
  const nlohmann::json* generation = opened.checkpoint->generation_config();
  if (generation == nullptr) return opened;
  command.options = RunOptions();
  ASHLAR_ASSIGN(const auto unused, apply_generation_config(*generation, command.options.sampling));
  command.sampling_source = "generation_config.json and flags";
  for (const std::string& key : unused) {
    fmt::print(stderr, "ashlar: generation_config.json: '{}' has no effect here\n", key);
  }
  CommandLine again = command_line(command);
  ASHLAR_TRY(parse_command_line(again, words));
  return opened;
}

Result<int> run(RunCommand& command, const Words& words) {
  ASHLAR_ASSIGN(OpenedModel opened, open_with_defaults(command, words));
  const bool on_terminal = isatty(STDIN_FILENO) != 0;
  if (!command.options.raw && !opened.chat_template) {
    return fail(ErrorCode::kUnsupported,
                "{} has no chat template, so it cannot chat; use --raw to continue a text as it is",
                command.model);
  }
  if (command.prompt.empty() && on_terminal && command.options.raw) {
    return fail(ErrorCode::kInvalidArgument,
                "--raw needs a PROMPT or a pipe; a chat needs a template");
  }
  ASHLAR_ASSIGN(ModelSession session, start_session(std::move(opened), command.options));
  OpTable table;
  if (command.options.profile) session.engine->observe(&table);
  install_interrupt_handler();
  int exit_code = 0;
  if (command.prompt.empty() && on_terminal) {
    ASHLAR_TRY(chat(session, command));
  } else {
    if (command.prompt.empty()) {
      command.prompt.assign(std::istreambuf_iterator<char>(std::cin), {});
    }
    if (command.prompt.empty()) return fail(ErrorCode::kInvalidArgument, "the prompt is empty");
    ASHLAR_ASSIGN(auto prompt, encode_prompt(session, command.options, command.prompt));
    ASHLAR_ASSIGN(const Answer out, ask(session, command, std::move(prompt)));
    exit_code = out.finish == FinishReason::kCancelled ? 130 : 0;
  }
  if (command.options.profile) fmt::print(stderr, "{}", table.text());
  return exit_code;
}

}  // namespace

int run_verb(const Words& words) {
  RunCommand command;
  CommandLine line = command_line(command);
  const Result<Parsed> parsed = parse_command_line(line, words);
  if (!parsed) return report(parsed.error());
  if (*parsed == Parsed::kHelpShown) return 0;
  const Result<int> code = run(command, words);
  return code ? *code : report(code.error());
}

}  // namespace ashlar
