// Rendering and encoding under the limits of a server.
#include "serve/prompt.h"

#include <algorithm>

#include "checkpoint/quote.h"

namespace ashlar {

namespace {

ApiStatus check_size(std::string_view param, size_t bytes, const PromptLimits& limits) {
  if (static_cast<int64_t>(bytes) <= limits.max_bytes) return {};
  return refuse(param, "{} bytes are more than the {} that max_prompt_bytes allows", bytes,
                limits.max_bytes);
}

// Where each token stands for at most so many bytes, a longer text has too many tokens whatever it
// says.
ApiStatus check_fits(std::string_view param, size_t bytes, const PromptLimits& limits) {
  if (limits.token_bytes == 0) return {};
  const int64_t most = (limits.max_context + 1) * limits.token_bytes;
  if (static_cast<int64_t>(bytes) <= most) return {};
  auto error = refuse(param,
                      "{} bytes are more than the {} that could fit: the context holds {} tokens, "
                      "the answer included, and a token stands for at most {} bytes",
                      bytes, most, limits.max_context, limits.token_bytes);
  error.value().code = "context_length_exceeded";
  return error;
}

ApiStatus check_time(const PromptLimits& limits) {
  if (std::chrono::steady_clock::now() < limits.deadline) return {};
  return api_fail(503, "prompt_timeout",
                  "the prompt was not ready within prompt_timeout_ms; send less or try again");
}

// Names the field at fault, and keeps the status of failures that are ours.
tl::unexpected<ApiError> prompt_error(std::string_view param, const Error& error) {
  ApiError out = api_error(error);
  out.param = param;
  out.message = fmt::format("{}: {}", param, error.message);
  return tl::unexpected<ApiError>(std::move(out));
}

ApiResult<std::vector<int32_t>> encode(std::string_view param, std::string_view text,
                                       const ServedModel& model, const PromptLimits& limits,
                                       EncodeOptions options) {
  ASHLAR_API_TRY(check_size(param, text.size(), limits));
  ASHLAR_API_TRY(check_time(limits));
  ASHLAR_API_TRY(check_fits(param, text.size(), limits));
  Result<std::vector<int32_t>> ids = model.tokenizer->encode(text, options);
  if (!ids) return prompt_error(param, ids.error());
  if (ids->empty()) return refuse(param, "the text has no tokens");
  return std::move(*ids);
}

ApiStatus prepare_chat(PreparedRequest& out, const ServedModel& model, const PromptLimits& limits) {
  if (!model.chat_template) {
    return api_fail(400, "no_chat_template",
                    "the model has no chat template; use /v1/completions instead");
  }
  ASHLAR_API_TRY(check_size("messages", out.request.messages_json.size(), limits));
  ChatInput input;
  input.messages_json = std::move(out.request.messages_json);
  input.variables_json = out.request.template_kwargs;
  input.add_generation_prompt = out.request.add_generation_prompt;
  if (model.tokenizer->bos_id()) input.bos_token = std::string(model.tokenizer->bos_text());
  if (model.tokenizer->eos_id()) input.eos_token = std::string(model.tokenizer->eos_text());
  const Result<std::string> text = model.chat_template->render(input);
  if (!text) return prompt_error("messages", text.error());
  ASHLAR_API_ASSIGN(
      std::vector<int32_t> ids,
      encode("messages", *text, model, limits, {.add_special = false, .parse_special = true}));
  out.prompts.push_back(std::move(ids));
  out.echoes.emplace_back();
  return {};
}

ApiStatus prepare_completion(PreparedRequest& out, const ServedModel& model,
                             const PromptLimits& limits) {
  for (PromptInput& prompt : out.request.prompts) {
    std::string echo;
    if (prompt.is_text) {
      ASHLAR_API_ASSIGN(std::vector<int32_t> ids,
                        encode("prompt", prompt.text, model, limits,
                               {.add_special = true, .parse_special = true}));
      out.prompts.push_back(std::move(ids));
      if (out.request.echo) echo = std::move(prompt.text);
    } else {
      if (out.request.echo) {
        Result<std::string> text = model.tokenizer->decode(prompt.ids, /*skip_special=*/false);
        if (!text) return prompt_error("prompt", text.error());
        echo = std::move(*text);
      }
      out.prompts.push_back(std::move(prompt.ids));
    }
    out.echoes.push_back(std::move(echo));
  }
  out.request.prompts.clear();
  return {};
}

}  // namespace

ApiError unknown_model(std::string_view name, const ServedModel& model) {
  ApiError error;
  error.status = 404;
  error.param = "model";
  error.code = "model_not_found";
  error.message = fmt::format("model: there is no {}; this server has \"{}\"", quote_name(name),
                              model.names.front());
  return error;
}

ApiResult<PreparedRequest> prepare_request(ApiKind kind, std::string_view body,
                                           const ServedModel& model, const PromptLimits& limits) {
  ASHLAR_API_TRY(check_time(limits));
  PreparedRequest out;
  ASHLAR_API_ASSIGN(out.request, kind == ApiKind::kChat ? parse_chat(body, model.defaults)
                                                        : parse_completion(body, model.defaults));
  if (std::ranges::find(model.names, out.request.model) == model.names.end()) {
    return tl::unexpected<ApiError>(unknown_model(out.request.model, model));
  }
  const int64_t answers = std::max<int64_t>(std::ssize(out.request.prompts), 1) * out.request.n;
  if (answers > limits.max_prompts) {
    return refuse(kind == ApiKind::kChat ? "n" : "prompt",
                  "{} answers are more than the {} that max_waiting allows", answers,
                  limits.max_prompts);
  }
  ASHLAR_API_TRY(kind == ApiKind::kChat ? prepare_chat(out, model, limits)
                                        : prepare_completion(out, model, limits));
  return out;
}

}  // namespace ashlar
