// The option tables of `run`, and the sampling defaults a checkpoint brings along.
// A generation_config.json is only advice: its values become defaults that flags override.
#include "run_options.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace ashlar {

namespace {

// Keys that say nothing about which token comes next, or that are read elsewhere (end tokens:
// model_session.cc).
const std::set<std::string>& harmless_keys() {
  static const std::set<std::string> keys = {"_from_model_config",   "bos_token_id",
                                             "eos_token_id",         "pad_token_id",
                                             "transformers_version", "use_cache",
                                             "cache_implementation", "trust_remote_code",
                                             "chat_format",          "return_dict_in_generate",
                                             "output_attentions",    "output_hidden_states"};
  return keys;
}

// Whole numbers must be whole in the file too, and small enough for every option's own range.
Status read_number(const nlohmann::json& value, const std::string& key, auto& target) {
  using Target = std::remove_reference_t<decltype(target)>;
  const bool fits = std::is_integral_v<Target>
                        ? value.is_number_integer() && std::abs(value.get<double>()) < 1e15
                        : value.is_number();
  if (!fits) {
    return fail(ErrorCode::kCorrupt, "generation_config.json: '{}' cannot be {}", key,
                value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  target = value.get<Target>();
  return {};
}

}  // namespace

void DeviceOptions::add_to(OptionFields& fields) {
  fields.add("device", device,
             "where the model runs: auto (the best there is), cpu, cuda or cuda:N");
  fields.add("threads", threads, "worker threads of the cpu; 0: one a usable core").range(0, 1024);
  fields
      .add("kv_type", kv_type,
           "element type of cached keys and values; auto: f16 on the CPU, bf16 on a GPU")
      .one_of({"auto", "f16", "f32", "bf16"});
}

RunOptions::RunOptions() {
  sampling.temperature = 0.7;
  sampling.top_p = 0.95;
  engine.max_batch = 1;
}

OptionFields RunOptions::fields() {
  OptionFields f;
  device.add_to(f);
  // What a crowd needs belongs to a server: here it could change nothing.
  OptionFields engine_fields = engine.fields();
  std::erase_if(engine_fields.list(), [](const OptionField& field) {
    return field.name == "max_batch" || field.name == "max_waiting";
  });
  f.append(engine_fields);
  f.append(sampling.fields());
  f.add("logit_bias", logit_bias, "ID=BIAS, added to a token's logit; repeatable");
  f.add("stop", stop, "text that ends the answer; repeatable");
  f.add("stop_token", stop_tokens, "token id that ends the answer; repeatable");
  f.add("ignore_eos", ignore_eos, "do not end at the model's end-of-generation tokens");
  f.add("min_tokens", min_tokens,
        "no end-of-generation or stop token before this many tokens; stop texts still end the "
        "answer")
      .range(0, 1 << 20);
  f.add("max_tokens", max_tokens, "tokens of an answer; 0: until the context is full")
      .range(0, 1 << 20);
  f.add("system", system, "system message of the chat; not with --raw");
  f.add("template_kwargs", template_kwargs,
        "JSON object of further variables for the chat template; not with --raw");
  f.add("raw", raw, "give the prompt to the model as it is, without a chat template");
  f.add("json", json, "print one JSON object an answer instead of streaming text");
  f.add("stats", stats, "print effective settings, counts and speeds to stderr");
  f.add("profile", profile, "print time, bytes and flops of each operation to stderr");
  return f;
}

Result<std::vector<std::string>> apply_generation_config(const nlohmann::json& config,
                                                         SamplingParams& sampling) {
  std::vector<std::string> without_effect;
  if (!config.is_object())
    return fail(ErrorCode::kCorrupt, "generation_config.json: not an object");
  // Without do_sample the checkpoint's authors decode greedily; a temperature beside it is then
  // moot.
  sampling = SamplingParams();
  const bool sample = config.value("do_sample", nlohmann::json(false)) == nlohmann::json(true);
  for (const auto& [key, value] : config.items()) {
    if (value.is_null() || key == "do_sample" || harmless_keys().contains(key)) continue;
    if (key == "temperature") {
      ASHLAR_TRY(read_number(value, key, sampling.temperature));
    } else if (key == "top_k") {
      ASHLAR_TRY(read_number(value, key, sampling.top_k));
    } else if (key == "top_p") {
      ASHLAR_TRY(read_number(value, key, sampling.top_p));
    } else if (key == "min_p") {
      ASHLAR_TRY(read_number(value, key, sampling.min_p));
    } else if (key == "repetition_penalty") {
      ASHLAR_TRY(read_number(value, key, sampling.repetition_penalty));
    } else {
      without_effect.push_back(key);
    }
  }
  if (!sample) sampling.temperature = 0;
  return without_effect;
}

}  // namespace ashlar
