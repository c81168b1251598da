// storm(): a crowd of requests through an EngineThread, of which every survivor must have answered
// as it does alone.
//
// Requests differ in prompt, length, sampling, rules and number of choices; they come from several
// threads, a third of them is cancelled at random points, and pages are too few for all. Made for
// any model, so that the same storm runs over a toy under a thread sanitizer and over real layers.
#ifndef ASHLAR_TESTING_STORM_H_
#define ASHLAR_TESTING_STORM_H_

#include <cstdint>
#include <string>

#include "device/device.h"
#include "engine/engine.h"
#include "models/model.h"

namespace ashlar {

struct StormOptions {
  uint64_t seed = 1;
  int64_t requests = 64;
  int64_t threads = 4;
  int64_t longest_prompt = 70;
  int64_t longest_answer = 130;
  EngineOptions crowd;            // the engine of the storm; few pages, or nobody is preempted
  Device* solo_device = nullptr;  // where requests run alone; null: on the storm's
};

struct StormReport {
  std::string problem;  // the first one, or ""
  EngineStats stats;    // of the storm's engine once all is quiet
  int64_t survivors = 0;
  int64_t cancelled = 0;  // choices both
};

// text as for Engine::create. With a tokenizer some requests have stop strings.
StormReport storm(Model& model, Device& device, const EngineText& text,
                  const StormOptions& options);

}  // namespace ashlar

#endif  // ASHLAR_TESTING_STORM_H_
