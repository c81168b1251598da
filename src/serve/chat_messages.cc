// Checks messages one by one and writes them anew, so that a template sees roles and texts and
// nothing that was not understood.
#include "serve/chat_messages.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ashlar {

using nlohmann::json;

namespace {

constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};

// What client libraries send back with an earlier answer.
constexpr NeutralField kNeutralMessage[] = {
    {"tool_calls", "[[]]"},
    {"annotations", "[[]]"},
};

ApiResult<std::string> read_part(const json& part, const std::string& place) {
  if (!part.is_object()) return refuse(place, "expected an object, got {}", json_kind(part));
  RequestFields fields(part, place + ".");
  std::string type, text;
  ASHLAR_API_TRY(fields.read("type", type));
  if (type != "text") return refuse(place + ".type", "only \"text\" is supported");
  if (fields.take("text") == nullptr) return refuse(place + ".text", "required");
  ASHLAR_API_TRY(fields.read("text", text));
  ASHLAR_API_TRY(fields.finish({}));
  return text;
}

ApiResult<std::string> read_content(const json* content, const std::string& place) {
  if (content == nullptr) return refuse(place, "required: a text or a list of text parts");
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    return refuse(place, "expected a text or a list of text parts, got {}", json_kind(*content));
  }
  std::string joined;
  for (size_t i = 0; i < content->size(); ++i) {
    ASHLAR_API_ASSIGN(const std::string text,
                      read_part((*content)[i], fmt::format("{}[{}]", place, i)));
    if (i > 0) joined += '\n';
    joined += text;
  }
  return joined;
}

ApiResult<json> read_message(const json& message, const std::string& place) {
  if (!message.is_object()) return refuse(place, "expected an object, got {}", json_kind(message));
  RequestFields fields(message, place + ".");
  std::string role;
  ASHLAR_API_TRY(fields.read("role", role));
  if (std::ranges::find(kRoles, role) == std::end(kRoles)) {
    return refuse(place + ".role", "expected system, developer, user, assistant or tool");
  }
  ASHLAR_API_ASSIGN(std::string content, read_content(fields.take("content"), place + ".content"));
  ASHLAR_API_TRY(fields.finish(kNeutralMessage));
  json out = json::object();
  out["role"] = std::move(role);
  out["content"] = std::move(content);
  return out;
}

}  // namespace

ApiStatus read_messages(RequestFields& fields, ApiRequest& request) {
  const json* messages = fields.take("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    return refuse("messages", "required: a list of messages with role and content, at least one");
  }
  json list = json::array();
  for (size_t i = 0; i < messages->size(); ++i) {
    ASHLAR_API_ASSIGN(json message, read_message((*messages)[i], fmt::format("messages[{}]", i)));
    list.push_back(std::move(message));
  }
  request.messages_json = list.dump();
  ASHLAR_API_TRY(fields.read("add_generation_prompt", request.add_generation_prompt));
  const json* variables = fields.take("chat_template_kwargs");
  if (variables == nullptr) return {};
  if (!variables->is_object()) {
    return refuse("chat_template_kwargs", "expected an object, got {}", json_kind(*variables));
  }
  for (const char* own :
       {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"}) {
    if (variables->contains(own)) {
      return refuse("chat_template_kwargs", "'{}' is set by the server", own);
    }
  }
  if (!variables->empty()) request.template_kwargs = variables->dump();
  return {};
}

}  // namespace ashlar
