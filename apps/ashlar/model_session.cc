// Opens a model argument and builds what answers it. Order matters for a fast start: the checkpoint
// is only mapped, so nearly all of the time here is the tokenizer's vocabulary.
#include "model_session.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "device_choice.h"
#include "text/gguf_vocabulary.h"

namespace ashlar {

namespace {

Status load_text_of_gguf(const GgufFile& file, OpenedModel& opened) {
  ASHLAR_ASSIGN(const GgufVocabulary vocabulary, read_gguf_vocabulary(file));
  ASHLAR_ASSIGN(opened.tokenizer, Tokenizer::from_gguf(vocabulary));
  ASHLAR_ASSIGN(opened.chat_template, ChatTemplate::from_gguf(vocabulary));
  return {};
}

Status load_text_of_folder(const Checkpoint& checkpoint, OpenedModel& opened) {
  ASHLAR_ASSIGN(const auto tokenizer_json, checkpoint.optional_text("tokenizer.json"));
  ASHLAR_ASSIGN(const auto config, checkpoint.optional_text("tokenizer_config.json"));
  ASHLAR_ASSIGN(const auto jinja, checkpoint.optional_text("chat_template.jinja"));
  if (!tokenizer_json) {
    return fail(
        ErrorCode::kNotFound,
        "there is no tokenizer.json; other tokenizer files are not read, convert them first");
  }
  ASHLAR_ASSIGN(opened.tokenizer, Tokenizer::from_json(*tokenizer_json, config.value_or("")));
  ASHLAR_ASSIGN(opened.chat_template,
                ChatTemplate::from_files(config.value_or(""), jinja.value_or("")));
  return {};
}

// eos_token_id is one id or a list, in config.json and in generation_config.json.
Status add_end_tokens(const nlohmann::json& config, std::string_view name, int64_t vocabulary,
                      std::vector<int32_t>& ids) {
  const auto found = config.find("eos_token_id");
  if (found == config.end() || found->is_null()) return {};
  const nlohmann::json list = found->is_array() ? *found : nlohmann::json::array({*found});
  for (const nlohmann::json& id : list) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= vocabulary) {
      return fail(ErrorCode::kCorrupt,
                  "{}: 'eos_token_id' {} is not a token of the vocabulary of {}", name, id.dump(),
                  vocabulary);
    }
    ids.push_back(id.get<int32_t>());
  }
  return {};
}

}  // namespace

Result<OpenedModel> open_model(const std::string& argument, const Environment& environment,
                               TensorUse use) {
  OpenedModel opened;
  ASHLAR_ASSIGN(opened.checkpoint, Checkpoint::open(argument, environment.hub, use));
  const Checkpoint& checkpoint = *opened.checkpoint;
  Status text = checkpoint.gguf() != nullptr ? load_text_of_gguf(*checkpoint.gguf(), opened)
                                             : load_text_of_folder(checkpoint, opened);
  if (!text) return fail_in(checkpoint.path(), text.error());
  std::vector<int32_t>& ends = opened.end_tokens;
  ends = opened.tokenizer->end_of_generation_ids();
  const int64_t vocabulary = opened.tokenizer->vocab_size();
  if (checkpoint.gguf() == nullptr) {
    ASHLAR_TRY(add_end_tokens(checkpoint.config(), checkpoint.config_name(), vocabulary, ends));
    if (const nlohmann::json* generation = checkpoint.generation_config()) {
      ASHLAR_TRY(add_end_tokens(*generation, "generation_config.json", vocabulary, ends));
    }
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return opened;
}

Result<std::unique_ptr<Model>> build_model(std::shared_ptr<Checkpoint> checkpoint,
                                           int64_t decodable, Device& device,
                                           const DeviceOptions& options, int64_t context_length) {
  ModelOptions model_options;
  model_options.kv_type = options.kv_type == "f32" ? DType::kF32 : DType::kF16;
  model_options.context_length = context_length;
  model_options.decodable = decodable;
  return load_model(std::move(checkpoint), device, model_options);
}

Result<ModelSession> start_session(OpenedModel opened, const RunOptions& options) {
  ModelSession session;
  session.opened = std::make_unique<OpenedModel>(std::move(opened));
  ASHLAR_ASSIGN(session.device, open_device(options.device, DeviceNeed::kEngine));
  ASHLAR_ASSIGN(session.model,
                build_model(session.opened->checkpoint, session.tokenizer().vocab_size(),
                            *session.device, options.device, options.engine.max_context));
  const EngineText text{&session.tokenizer(), session.opened->end_tokens};
  ASHLAR_ASSIGN(session.engine,
                Engine::create(*session.model, *session.device, text, options.engine));
  return session;
}

}  // namespace ashlar
