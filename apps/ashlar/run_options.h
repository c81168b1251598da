// RunOptions: every knob of `ashlar run`, declared once (base/options.h).
// Defaults of sampling may be replaced by the checkpoint's generation_config.json before flags are
// applied; which source each value came from is part of the effective dump.
#ifndef ASHLAR_APPS_RUN_OPTIONS_H_
#define ASHLAR_APPS_RUN_OPTIONS_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/options.h"
#include "engine/engine.h"
#include "sampling/params.h"

namespace ashlar {

struct DeviceOptions {
  std::string device = "auto";  // device_choice.h reads it
  int64_t threads = 0;
  std::string kv_type = "auto";
  void add_to(OptionFields& fields);
};

struct RunOptions {
  DeviceOptions device;
  EngineOptions engine;
  SamplingParams sampling;
  std::vector<std::string> logit_bias;
  std::vector<std::string> stop;
  std::vector<std::string> stop_tokens;
  bool ignore_eos = false;
  int64_t min_tokens = 0;
  int64_t max_tokens = 0;
  std::string system;
  std::string template_kwargs;
  bool raw = false;
  bool json = false;
  bool stats = false;
  bool profile = false;

  RunOptions();
  OptionFields fields();
};

// Takes over what generation_config.json says about sampling. Returns the keys that it found and
// that have no effect here, for the user to see.
Result<std::vector<std::string>> apply_generation_config(const nlohmann::json& config,
                                                         SamplingParams& sampling);

}  // namespace ashlar

#endif  // ASHLAR_APPS_RUN_OPTIONS_H_
