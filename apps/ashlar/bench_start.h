// ashlar bench start MODEL: where the time goes from the start of the program to the first answer,
// and whether the first answer is as fast as the second (docs/bench.md).
#ifndef ASHLAR_APPS_BENCH_START_H_
#define ASHLAR_APPS_BENCH_START_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/options.h"
#include "engine/memory_plan.h"
#include "model_session.h"
#include "run_options.h"
#include "verbs.h"

namespace ashlar {

struct BenchStartOptions {
  DeviceOptions device;
  EngineOptions engine;
  int64_t prompt_tokens = 128;
  int64_t tokens = 16;
  int64_t requests = 4;
  bool json = false;
  std::string output;

  OptionFields fields();
};

struct StartedRequest {
  double first_token_seconds = 0;  // from submission
  double total_seconds = 0;
};

struct StartReport {
  std::string device;
  std::string commit;
  std::string model;
  std::string format;
  double checkpoint_seconds = 0;
  double text_seconds = 0;
  StartTimes times;
  std::vector<StartedRequest> requests;
  MemoryPlan plan;
  int64_t used_bytes = 0;  // of the device's memory at the end, as its driver counts; 0 on the CPU

  double ready_seconds() const;        // until requests are taken
  double first_token_seconds() const;  // from the beginning
  // Of the first request over the second, to the whole answer.
  double first_over_second() const;
};

nlohmann::json start_json(const StartReport& report);
std::string start_text(const StartReport& report);

// words: what follows "start".
int bench_start_verb(const Words& words);

}  // namespace ashlar

#endif  // ASHLAR_APPS_BENCH_START_H_
