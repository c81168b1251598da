// Finds a model's templates and hands them to the library.
#include "text/chat_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "text/rust_bridge.h"

namespace ashlar {
namespace {

// A rendering of a hundred messages with tools takes about 20,000 steps.
constexpr uint64_t kStepLimit = 5'000'000;
constexpr size_t kOutputLimit = size_t{64} << 20;
constexpr std::string_view kDefault = "default";
constexpr std::string_view kToolUse = "tool_use";

std::tm local_time() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&seconds, &parts);
  return parts;
}

}  // namespace

struct ChatTemplate::Compiled {
  AshlarTemplate* handle = nullptr;

  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() { ashlar_template_free(handle); }
};

Status ChatTemplate::add(std::string_view name, std::string_view source) {
  auto compiled = std::make_shared<Compiled>();
  RustBuffer error;
  ASHLAR_TRY(rust_status(
      ashlar_template_compile(rust_bytes(source), kStepLimit, &compiled->handle, error.out()),
      error));
  named_.emplace_back(name, std::move(compiled));
  return {};
}

Result<ChatTemplate> ChatTemplate::compile(std::string_view source) {
  ChatTemplate out{Named()};
  ASHLAR_TRY(out.add(kDefault, source));
  return out;
}

Result<std::optional<ChatTemplate>> ChatTemplate::from_files(std::string_view tokenizer_config_json,
                                                             std::string_view chat_template_jinja) {
  if (!chat_template_jinja.empty()) return compile(chat_template_jinja);
  if (tokenizer_config_json.empty()) return std::nullopt;
  const nlohmann::json config = nlohmann::json::parse(tokenizer_config_json, nullptr, false);
  if (!config.is_object()) {
    return fail(ErrorCode::kCorrupt, "tokenizer_config.json is not a JSON object");
  }
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return compile(found->get_ref<const std::string&>());
  ChatTemplate out{Named()};
  if (!found->is_array()) {
    return fail(ErrorCode::kCorrupt, "tokenizer_config.json: chat_template is a {}",
                found->type_name());
  }
  for (const nlohmann::json& entry : *found) {
    const auto text = [&entry](const char* key) -> const std::string* {
      const auto value = entry.is_object() ? entry.find(key) : entry.end();
      return entry.is_object() && value != entry.end() && value->is_string()
                 ? value->get_ptr<const std::string*>()
                 : nullptr;
    };
    const std::string* name = text("name");
    const std::string* source = text("template");
    if (name == nullptr || source == nullptr) {
      return fail(ErrorCode::kCorrupt,
                  "tokenizer_config.json: a chat_template entry without name or template");
    }
    ASHLAR_TRY(out.add(*name, *source));
  }
  if (out.named_.empty()) return std::nullopt;
  return out;
}

Result<std::optional<ChatTemplate>> ChatTemplate::from_gguf(const GgufVocabulary& vocabulary) {
  ChatTemplate out{Named()};
  for (const auto& [name, source] : vocabulary.chat_templates) ASHLAR_TRY(out.add(name, source));
  if (out.named_.empty()) return std::nullopt;
  return out;
}

Result<std::string> ChatTemplate::render(const ChatInput& input) const {
  auto find = [this](std::string_view name) {
    return std::ranges::find(named_, name, [](const auto& entry) { return entry.first; });
  };
  auto chosen = input.tools_json.empty() ? named_.end() : find(kToolUse);
  if (chosen == named_.end()) chosen = find(kDefault);
  if (chosen == named_.end()) {
    return fail(ErrorCode::kNotFound, "the model has chat templates, but none called \"{}\"",
                kDefault);
  }
  auto optional_bytes = [](const std::optional<std::string>& text) {
    return text ? rust_bytes(*text) : AshlarBytes{nullptr, 0};
  };
  const std::tm now = input.now ? *input.now : local_time();
  const AshlarTemplateInput raw = {
      .messages = rust_bytes(input.messages_json),
      .tools = rust_bytes(input.tools_json),
      .bos_token = optional_bytes(input.bos_token),
      .eos_token = optional_bytes(input.eos_token),
      .variables = rust_bytes(input.variables_json),
      .add_generation_prompt = input.add_generation_prompt,
      .now = &now,
      .output_limit = kOutputLimit,
  };
  RustBuffer text, error;
  ASHLAR_TRY(rust_status(
      ashlar_template_render(chosen->second->handle, &raw, text.out(), error.out()), error));
  return text.text();
}

}  // namespace ashlar
