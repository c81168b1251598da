// An event between each two runs: one more a run, which costs a device about a microsecond.
#include "bench_time.h"

#include <algorithm>

namespace ashlar {

Result<std::vector<double>> time_runs(Stream& stream, int64_t count,
                                      const std::function<void()>& run) {
  std::vector<std::unique_ptr<Event>> events;
  events.reserve(static_cast<size_t>(count) + 1);
  events.push_back(stream.record_timed());
  for (int64_t i = 0; i < count; ++i) {
    run();
    events.push_back(stream.record_timed());
  }
  ASHLAR_TRY(events.back()->wait());
  std::vector<double> seconds;
  for (size_t i = 1; i < events.size(); ++i) {
    seconds.push_back(events[i]->seconds_since(*events[i - 1]));
  }
  ASHLAR_TRY(stream.synchronize());
  return seconds;
}

int64_t runs_for(double wanted, double seconds, int64_t least, int64_t most) {
  const double fits = wanted / std::max(seconds, 1e-9);
  return fits >= static_cast<double>(most) ? most : std::max(least, static_cast<int64_t>(fits));
}

Result<std::unique_ptr<Recording>> record_work(Stream& stream, const std::function<void()>& issue) {
  stream.begin_recording();
  issue();
  return stream.end_recording();
}

}  // namespace ashlar
