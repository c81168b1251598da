// ServeOptions: every knob of `ashlar serve`, declared once (base/options.h).
// Sampling values are what a request gets that does not say otherwise; the checkpoint's
// generation_config.json may replace them before flags are applied, as for `run`.
#ifndef ASHLAR_APPS_SERVE_OPTIONS_H_
#define ASHLAR_APPS_SERVE_OPTIONS_H_

#include <string>
#include <vector>

#include "run_options.h"
#include "serve/server_options.h"

namespace ashlar {

struct ServeOptions {
  ServerOptions server;
  std::vector<std::string> model_names;
  std::string log_level = "info";
  DeviceOptions device;
  EngineOptions engine;
  SamplingParams sampling;

  ServeOptions();
  OptionFields fields();
};

}  // namespace ashlar

#endif  // ASHLAR_APPS_SERVE_OPTIONS_H_
