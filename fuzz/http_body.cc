// The body of a request to the server: the first byte says which route, the rest is JSON or not.
// What is accepted must be within the limits that the fields state; then a small model's template
// is rendered with it and its prompts are encoded, as the server does before the engine sees them.
#include <algorithm>
#include <string>
#include <vector>

#include "fuzz/targets.h"
#include "serve/prompt.h"
#include "text/utf8.h"

namespace ashlar {

namespace {

constexpr std::string_view kTemplate =
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if flag %}{{ messages | tojson }}{% endif %}{% if add_generation_prompt %}a:{% endif %}";

// A tokenizer that has a token for every byte.
Tokenizer byte_tokenizer() {
  std::vector<std::string> names = {"<unk>", "<s>", "</s>"};
  for (int byte = 0; byte < 256; ++byte) names.push_back(fmt::format("<0x{:02X}>", byte));
  names.insert(names.end(), {"\xe2\x96\x81", "a",
                             "\xe2\x96\x81"
                             "a"});
  const std::vector<std::string_view> tokens(names.begin(), names.end());
  GgufVocabulary vocabulary;
  vocabulary.model = "llama";
  vocabulary.tokens = tokens;
  vocabulary.types.assign(tokens.size(), 6);
  std::fill(vocabulary.types.end() - 3, vocabulary.types.end(), 1);
  vocabulary.types[0] = 2;
  vocabulary.types[1] = vocabulary.types[2] = 3;
  vocabulary.scores.assign(tokens.size(), 0.0f);
  vocabulary.bos_id = 1;
  vocabulary.eos_id = 2;
  Result<Tokenizer> tokenizer = Tokenizer::from_gguf(vocabulary);
  CHECK(tokenizer.has_value());
  return *tokenizer;
}

ServedModel small_model() {
  ServedModel served;
  served.names = {"m"};
  served.tokenizer = byte_tokenizer();
  served.chat_template = *ChatTemplate::compile(kTemplate);
  return served;
}

void check_refusal(const ApiError& error) {
  CHECK(error.status >= 400 && error.status < 500);
  CHECK(!error.message.empty());
  CHECK(is_valid_utf8(error_json(error)));
}

void check_accepted(const PreparedRequest& prepared, const PromptLimits& limits, int vocabulary) {
  const ApiRequest& request = prepared.request;
  CHECK_GE(request.n, 1);
  CHECK(!request.max_tokens || *request.max_tokens >= 0);
  CHECK_GE(request.min_tokens, 0);
  CHECK_LE(static_cast<int64_t>(request.stop.size()), kMaxStops);
  for (const int32_t id : request.stop_token_ids) CHECK_GE(id, 0);
  CHECK(!prepared.prompts.empty());
  CHECK_LE(static_cast<int64_t>(prepared.prompts.size()) * request.n, limits.max_prompts);
  for (const std::vector<int32_t>& prompt : prepared.prompts) {
    // Ids that a client sends itself are judged by the engine.
    if (request.kind == ApiKind::kChat) {
      for (const int32_t id : prompt) CHECK(id >= 0 && id < vocabulary);
    }
  }
}

}  // namespace

void fuzz_http_body(std::string_view input) {
  static const ServedModel model = small_model();
  if (input.empty()) return;
  const ApiKind kind = input.front() == 'c' ? ApiKind::kChat : ApiKind::kCompletion;
  PromptLimits limits;
  limits.max_bytes = 2000;
  limits.max_prompts = 64;
  limits.max_context = 300;
  limits.token_bytes = model.tokenizer->most_text_bytes();
  const auto prepared = prepare_request(kind, input.substr(1), model, limits);
  if (!prepared) return check_refusal(prepared.error());
  check_accepted(*prepared, limits, model.tokenizer->vocab_size());
}

}  // namespace ashlar
