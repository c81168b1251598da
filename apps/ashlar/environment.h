// The environment that the program reads, all of it, handed on as plain values.
// Everything else comes from flags and from an options file; no other file calls getenv.
#ifndef ASHLAR_APPS_ENVIRONMENT_H_
#define ASHLAR_APPS_ENVIRONMENT_H_

#include "checkpoint/hub_paths.h"

namespace ashlar {

struct Environment {
  HubPaths hub;  // HF_HOME, HF_HUB_CACHE, HOME, XDG_CACHE_HOME
};

Environment read_environment();

}  // namespace ashlar

#endif  // ASHLAR_APPS_ENVIRONMENT_H_
