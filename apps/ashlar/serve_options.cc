// The option table of `serve`.
#include "serve_options.h"

namespace ashlar {

ServeOptions::ServeOptions() {
  sampling = RunOptions().sampling;
  engine.max_batch = 64;
}

OptionFields ServeOptions::fields() {
  OptionFields f;
  f.append(server.fields());
  f.add("model_name", model_names,
        "name that requests use for the model; repeatable, the first is the one it goes by");
  f.add("log_level", log_level, "what to log on stderr; debug: a line for each request too")
      .one_of({"debug", "info", "warning", "off"});
  device.add_to(f);
  f.append(engine.fields());
  OptionFields defaults = sampling.fields();
  std::erase_if(defaults.list(), [](const OptionField& field) {
    return field.name == "seed" || field.name == "logprobs";  // a request's own affair
  });
  f.append(defaults);
  return f;
}

}  // namespace ashlar
