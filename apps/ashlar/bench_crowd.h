// BenchCrowd: sequences that were submitted together, and one timed step of the engine that runs
// them. It knows how many positions each sequence has, which is what a step reads of the cache.
// Used on the thread that runs the engine; the engine must be idle before a crowd and is after it.
#ifndef ASHLAR_APPS_BENCH_CROWD_H_
#define ASHLAR_APPS_BENCH_CROWD_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "model_session.h"

namespace ashlar {

struct TimedStep {
  double seconds = 0;
  int64_t launched = 0;     // steps that began in the call; 1 once the engine is under way
  int64_t prompt_rows = 0;  // of those steps
  int64_t decode_rows = 0;
  bool more = false;
};

class BenchCrowd {
 public:
  BenchCrowd(ModelSession& session, uint64_t seed) : session_(session), random_(seed) {}
  BenchCrowd(const BenchCrowd&) = delete;
  BenchCrowd& operator=(const BenchCrowd&) = delete;

  Status submit(int64_t sequences, int64_t prompt_tokens, int64_t output_tokens);
  Result<TimedStep> step();
  // Of each sequence, prompt included, as far as results have come back.
  const std::vector<int64_t>& positions() const { return positions_; }

 private:
  ModelSession& session_;
  std::mt19937_64 random_;
  std::vector<int64_t> positions_;
  std::string failure_;
};

}  // namespace ashlar

#endif  // ASHLAR_APPS_BENCH_CROWD_H_
