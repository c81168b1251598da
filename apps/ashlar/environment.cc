// The one place that calls getenv. Reads HOME, XDG_CACHE_HOME, HF_HOME and HF_HUB_CACHE.
// Values are not interpreted here.
#include "environment.h"

#include <cstdlib>
#include <string>

namespace ashlar {

namespace {

std::string value_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

Environment read_environment() {
  Environment environment;
  environment.hub.hf_home = value_of("HF_HOME");
  environment.hub.hf_hub_cache = value_of("HF_HUB_CACHE");
  environment.hub.home = value_of("HOME");
  environment.hub.xdg_cache_home = value_of("XDG_CACHE_HOME");
  return environment;
}

}  // namespace ashlar
