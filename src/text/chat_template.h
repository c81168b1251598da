// ChatTemplate: renders a conversation as the text a model was trained on.
//
// The reference is transformers' apply_chat_template(tokenize=False): Jinja2 with its trims, loop
// controls, Python methods, raise_exception, strftime_now and its tojson. A model may have several
// templates by name; with tools the one called "tool_use" is taken if there is one. What a template
// writes must be encoded with parse_special and without add_special. Rendering is const and may run
// on any thread.
#ifndef ASHLAR_TEXT_CHAT_TEMPLATE_H_
#define ASHLAR_TEXT_CHAT_TEMPLATE_H_

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/gguf_vocabulary.h"

namespace ashlar {

struct ChatInput {
  // JSON array of objects with "role" and "content" (a string, or parts); other keys reach the
  // template as they are.
  std::string messages_json;
  std::string tools_json;      // JSON array, or empty for none
  std::string variables_json;  // JSON object of further template variables, or empty; they win over
                               // all others
  bool add_generation_prompt = true;
  std::optional<std::string> bos_token, eos_token;
  std::optional<std::tm> now;  // what strftime_now formats; by default the local time
};

class ChatTemplate {
 public:
  // Errors name the line of the template.
  static Result<ChatTemplate> compile(std::string_view source);
  // From the files beside the weights; either may be empty. chat_template.jinja wins over the key
  // "chat_template" of tokenizer_config.json, which is a text or a list of named templates.
  // nullopt: the model has none.
  static Result<std::optional<ChatTemplate>> from_files(std::string_view tokenizer_config_json,
                                                        std::string_view chat_template_jinja);
  static Result<std::optional<ChatTemplate>> from_gguf(const GgufVocabulary& vocabulary);

  // Errors: JSON that does not parse, a template that fails or raises, one without end.
  Result<std::string> render(const ChatInput& input) const;

 private:
  struct Compiled;
  using Named = std::vector<std::pair<std::string, std::shared_ptr<const Compiled>>>;
  explicit ChatTemplate(Named named) : named_(std::move(named)) {}
  Status add(std::string_view name, std::string_view source);

  Named named_;  // not empty
};

}  // namespace ashlar

#endif  // ASHLAR_TEXT_CHAT_TEMPLATE_H_
