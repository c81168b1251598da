// Opens a model argument and builds what answers it. Order matters for a fast start: the checkpoint
// is only mapped, so nearly all of the time here is the tokenizer's vocabulary.
#include "model_session.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "console.h"
#include "device/counting_device.h"
#include "device_choice.h"
#include "text/gguf_vocabulary.h"

namespace ashlar {

namespace {

// Seconds from one part of a start to the next.
class PartClock {
 public:
  double next() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> took = now - last_;
    last_ = now;
    return took.count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

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
  PartClock clock;
  ASHLAR_ASSIGN(opened.checkpoint, Checkpoint::open(argument, environment.hub, use));
  const Checkpoint& checkpoint = *opened.checkpoint;
  opened.checkpoint_seconds = clock.next();
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
  opened.text_seconds = clock.next();
  return opened;
}

Result<std::unique_ptr<Model>> build_model(std::shared_ptr<Checkpoint> checkpoint,
                                           int64_t decodable, Device& device,
                                           const DeviceOptions& options, int64_t context_length,
                                           const LoadWish& load) {
  ModelOptions model_options;
  if (options.kv_type == "f16") model_options.kv_type = DType::kF16;
  if (options.kv_type == "f32") model_options.kv_type = DType::kF32;
  if (options.kv_type == "bf16") model_options.kv_type = DType::kBF16;
  model_options.context_length = context_length;
  model_options.decodable = decodable;
  model_options.load = load;
  return load_model(std::move(checkpoint), device, model_options);
}

Result<MemoryPlan> plan_before_loading(std::shared_ptr<Checkpoint> checkpoint, int64_t decodable,
                                       Device& device, const RunOptions& options) {
  CountingDevice counter(device);
  ASHLAR_ASSIGN(const auto model,
                build_model(std::move(checkpoint), decodable, counter, options.device,
                            options.engine.max_context, {.values = false, .observer = {}}));
  return plan_memory(options.engine, *model, counter, 0);
}

// A GPU's plan comes before its weights, so that what cannot fit is refused before gigabytes are
// read; on the CPU the model is built first, as its weights stay where they are.
Result<ModelSession> start_session(OpenedModel opened, const RunOptions& options,
                                   const StartWish& wish) {
  ModelSession session;
  PartClock clock;
  session.opened = std::make_unique<OpenedModel>(std::move(opened));
  ASHLAR_ASSIGN(session.device, open_device(options.device));
  Device& device = *session.device;
  session.times.device_seconds = clock.next();
  const std::shared_ptr<Checkpoint>& checkpoint = session.opened->checkpoint;
  const int64_t decodable = session.tokenizer().vocab_size();
  std::optional<MemoryPlan> plan;
  if (device.memory().total_bytes > 0) {
    ASHLAR_ASSIGN(plan, plan_before_loading(checkpoint, decodable, device, options));
    if (wish.on_plan) wish.on_plan(*plan);
    session.times.plan_seconds = clock.next();
  }
  LoadWish load;
  load.observer = [&](const LoadProgress& progress) {
    session.times.load = progress;
    return !wish.on_load || wish.on_load(progress);
  };
  ASHLAR_ASSIGN(session.model, build_model(checkpoint, decodable, device, options.device,
                                           options.engine.max_context, load));
  session.times.model_seconds = clock.next();
  const EngineText text{&session.tokenizer(), session.opened->end_tokens};
  ASHLAR_ASSIGN(session.engine, Engine::create(*session.model, device, text, options.engine,
                                               nullptr, plan ? &*plan : nullptr));
  session.times.engine_seconds = clock.next();
  if (!plan && wish.on_plan) wish.on_plan(session.engine->memory_plan());
  const auto warning = plan_warning(session.engine->memory_plan(), device.memory());
  if (warning) print_err("ashlar: {}\n", *warning);
  return session;
}

}  // namespace ashlar
