// A chat template, compiled and rendered with messages and variables that may be anything as well.
#include "text/chat_template.h"

#include "fuzz/targets.h"
#include "text/utf8.h"

namespace ashlar {

void fuzz_chat_template(std::string_view input) {
  const std::vector<std::string_view> parts = fuzz_parts(input, 3);
  const Result<ChatTemplate> compiled = ChatTemplate::compile(parts[0]);
  fuzz_check_foreseen(compiled);
  if (!compiled) return;
  ChatInput chat;
  chat.messages_json = parts[1];
  chat.variables_json = parts[2];
  chat.bos_token = "<s>";
  chat.now = std::tm{};
  const Result<std::string> text = compiled->render(chat);
  fuzz_check_foreseen(text);
  if (text) CHECK(is_valid_utf8(*text));
}

}  // namespace ashlar
