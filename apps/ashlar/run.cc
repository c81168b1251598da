// ashlar run MODEL [PROMPT]: one answer to PROMPT, to what a pipe delivers, or a chat with history
// on a terminal.
//
// Text streams to stdout and everything else goes to stderr, so a pipe gets the answer alone.
// Ctrl-C stops the answer; in a chat the next one may follow, elsewhere the exit code is 130.
#include <unistd.h>

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "answer.h"
#include "checkpoint/json_text.h"
#include "console.h"
#include "flags.h"
#include "generation_defaults.h"
#include "load_line.h"
#include "text/utf8.h"
#include "trace/op_table.h"
#include "verbs.h"

namespace ashlar {

namespace {

struct RunCommand {
  std::string model;
  std::string prompt;
  bool has_prompt = false;  // also when it is empty
  RunOptions options;
  std::string sampling_source = "ashlar's defaults and flags";
};

CommandLine command_line(RunCommand& command) {
  return {"run",
          "Answers a prompt, or chats on a terminal.",
          {{"MODEL", "a folder, a .gguf file, a hub id in the local cache, or synthetic:PRESET",
            &command.model, true},
           {"PROMPT", "the prompt; without it stdin is read, a terminal starts a chat",
            &command.prompt, false, &command.has_prompt}},
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
  input.messages_json = json_text(messages);
  input.variables_json = options.template_kwargs;
  const Tokenizer& tokenizer = session.tokenizer();
  if (tokenizer.bos_id()) input.bos_token = std::string(tokenizer.bos_text());
  if (tokenizer.eos_id()) input.eos_token = std::string(tokenizer.eos_text());
  ASHLAR_ASSIGN(const std::string text, session.opened->chat_template->render(input));
  return tokenizer.encode(text, {.add_special = false, .parse_special = true});
}

Result<std::vector<int32_t>> encode_prompt(const ModelSession& session, const RunOptions& options,
                                           const std::string& prompt) {
  if (!is_valid_utf8(prompt)) {
    return fail(ErrorCode::kInvalidArgument, "the prompt is not valid UTF-8");
  }
  if (options.raw) {
    return session.tokenizer().encode(prompt, {.add_special = true, .parse_special = true});
  }
  nlohmann::json messages = first_messages(options);
  messages.push_back({{"role", "user"}, {"content", prompt}});
  return encode_chat(session, options, messages);
}

// The options with what was derived from them filled in.
nlohmann::json settings_json(const ModelSession& session, RunCommand& command,
                             const Answer& answer) {
  RunOptions effective = command.options;
  effective.engine = session.engine->options();
  effective.device.device = backend_name(session.device->backend());
  const ThreadPool* pool = session.device->thread_pool();
  effective.device.threads = pool != nullptr ? pool->threads() : 0;
  effective.sampling.seed = answer.seed;
  nlohmann::json settings = options_json(effective.fields());
  settings["sampling_source"] = command.sampling_source;
  return settings;
}

Status print_answer(ModelSession& session, RunCommand& command, const Answer& answer) {
  const RunOptions& options = command.options;
  const nlohmann::json settings = settings_json(session, command, answer);
  if (options.json) {
    print_out("{}\n", json_text(answer_json(session, answer, settings)));
  } else if (answer.text.empty() || answer.text.back() != '\n') {
    write_out("\n");
  }
  if (options.stats) {
    print_err("settings: {}\n{}", json_text(settings), answer_stats(session, answer));
  }
  return finish_output();
}

Result<Answer> ask(ModelSession& session, RunCommand& command, std::vector<int32_t> prompt) {
  ASHLAR_ASSIGN(Request request, make_request(session, command.options, std::move(prompt)));
  Result<Answer> out = answer(session, std::move(request), [&](std::string_view text) {
    if (!command.options.json) write_out(text);
  });
  if (!out && out.error().code == ErrorCode::kDevice) end_at_once(out.error());
  if (out) ASHLAR_TRY(print_answer(session, command, *out));
  return out;
}

// A line of the chat; a backslash at its end continues it. False at the end of the input.
bool read_line(std::string& line) {
  line.clear();
  std::string part;
  while (true) {
    write_err(line.empty() ? "> " : ". ");
    if (!std::getline(std::cin, part)) return false;
    if (part.empty() || part.back() != '\\') break;
    line += part.substr(0, part.size() - 1) + "\n";
  }
  line += part;
  return true;
}

Status chat(ModelSession& session, RunCommand& command) {
  print_err(
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
      write_err("\n");
      continue;
    }
    if (line == "/exit") break;
    if (line == "/reset") {
      messages = first_messages(command.options);
      continue;
    }
    if (line.empty()) continue;
    if (!is_valid_utf8(line)) {
      write_err("the line is not valid UTF-8\n");
      continue;
    }
    if (line.front() == '/' && line.find(' ') == std::string::npos) {
      print_err("there is no command {}; /reset and /exit exist\n", line);
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
  write_err("\n");
  return {};
}

// What would otherwise be accepted and have no effect.
Status check_combinations(const RunCommand& command, const OpenedModel& opened, bool chats) {
  const RunOptions& options = command.options;
  if (!options.raw && !opened.chat_template) {
    return fail(ErrorCode::kUnsupported,
                "{} has no chat template, so it cannot chat; use --raw to continue a text as it is",
                command.model);
  }
  if (options.raw && chats) {
    return fail(ErrorCode::kInvalidArgument,
                "--raw needs a PROMPT or a pipe; a chat needs a template");
  }
  if (options.raw && !(options.system.empty() && options.template_kwargs.empty())) {
    return fail(ErrorCode::kInvalidArgument,
                "--raw uses no chat template, so --system and --template-kwargs have no place");
  }
  if (options.sampling.logprobs && !options.json) {
    return fail(ErrorCode::kInvalidArgument, "--logprobs are printed with --json only");
  }
  if (options.template_kwargs.empty()) return {};
  ASHLAR_ASSIGN(const nlohmann::json variables,
                parse_json_object(options.template_kwargs, "--template-kwargs"));
  for (const char* own : {"messages", "tools", "documents", "add_generation_prompt"}) {
    if (variables.contains(own)) {
      return fail(ErrorCode::kInvalidArgument, "--template-kwargs: '{}' is set by the program",
                  own);
    }
  }
  return {};
}

// The prompt of a one-shot run: the word, or all of stdin.
Status read_prompt(RunCommand& command) {
  if (!command.has_prompt) {
    command.prompt.assign(std::istreambuf_iterator<char>(std::cin), {});
    if (interrupted()) return fail(ErrorCode::kCancelled, "interrupted while reading the prompt");
  }
  if (command.prompt.empty()) return fail(ErrorCode::kInvalidArgument, "the prompt is empty");
  return {};
}

Result<int> run(RunCommand& command, const Words& words) {
  ASHLAR_ASSIGN(OpenedModel opened, open_with_defaults(command, words, command_line));
  const bool chats = !command.has_prompt && isatty(STDIN_FILENO) != 0;
  ASHLAR_TRY(check_combinations(command, opened, chats));
  StartWish wish;
  wish.on_load = load_line(command.options.stats);
  if (command.options.stats) {
    wish.on_plan = [](const MemoryPlan& plan) { write_err(memory_plan_text(plan)); };
  }
  ASHLAR_ASSIGN(ModelSession session, start_session(std::move(opened), command.options, wish));
  OpTable table;
  if (command.options.profile) session.engine->observe(&table);
  install_interrupt_handler();
  int exit_code = 0;
  if (chats) {
    ASHLAR_TRY(chat(session, command));
  } else {
    ASHLAR_TRY(read_prompt(command));
    ASHLAR_ASSIGN(auto prompt, encode_prompt(session, command.options, command.prompt));
    ASHLAR_ASSIGN(const Answer out, ask(session, command, std::move(prompt)));
    exit_code = out.finish == FinishReason::kCancelled ? 130 : 0;
  }
  if (command.options.profile) write_err(table.text());
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
