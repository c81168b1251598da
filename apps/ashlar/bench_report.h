// What a benchmark found, as plain values, and how it is written: statistics, one JSON object, a
// table for people. Measures nothing itself.
#ifndef ASHLAR_APPS_BENCH_REPORT_H_
#define ASHLAR_APPS_BENCH_REPORT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/state_needs.h"

namespace ashlar {

// The value below which a share of the samples lies, between neighbours by distance. No samples: 0.
double quantile(std::vector<double> samples, double share);
inline double median(std::vector<double> samples) { return quantile(std::move(samples), 0.5); }

// What one step reads of the cache when each sequence has so many positions.
int64_t kv_read_bytes(const StateNeeds& needs, std::span<const int64_t> positions);
// The least that a step which gives each of these sequences one token must move: the weights, the
// keys and values of its positions, and recurrent state in and out. Logical sizes: no padding,
// nothing twice, no scratch, no activations.
int64_t floor_bytes(int64_t weight_bytes, const StateNeeds& needs,
                    std::span<const int64_t> positions);

struct ReadSpeed {
  int64_t bytes = 0;  // of the buffer, all of which each pass reads; 0: not measured
  double gb_s = 0;
  double clock_mhz = 0;  // of a GPU's processors meanwhile; 0: not known
};

// Whether the figures of a run mean anything: a GPU that reads slower than its kind does is shared,
// throttled or broken. Empty reason: they do.
std::string why_invalid(const std::string& device_name, const ReadSpeed& read);

// Of the matmuls of a step or a prompt.
struct MatmulWork {
  double flops = 0;
  double seconds = 0;           // 0: not measured
  double baseline_seconds = 0;  // of a vendor's library for the same products; 0: not known
};

// Steps, or whole prompts, on the device alone: recorded, without an engine.
struct BareRun {
  int64_t context = 0;          // positions of each sequence
  std::vector<double> seconds;  // of each
  double bytes = 0;             // floor_bytes() of a step; of a prompt 0
  int64_t ops = 0;              // operations of each
  MatmulWork matmul;
};

struct DecodeRow {
  int64_t concurrency = 0;
  std::vector<double> step_seconds;  // through the engine; empty: not measured
  std::vector<double> output_tok_s;  // one a repetition
  double step_bytes = 0;             // floor_bytes() of those steps, the mean
  BareRun bare;
};

struct PrefillRow {
  int64_t tokens = 0;
  std::vector<double> seconds;  // through the engine, one a repetition; empty: not measured
  BareRun bare;
};

// An operation with nothing else beside it: recorded calls, one behind the other.
struct AloneTimes {
  std::vector<double> seconds;  // of a call, one value a replay
  bool beyond_cache = false;    // the calls together touch more than the device's cache holds
  double baseline_seconds = 0;  // of a vendor's library; 0: not known
};

struct OpLine {
  std::string name;
  int64_t calls = 0;   // of one step; so are the sums
  double seconds = 0;  // within a step, by events around each call
  int64_t bytes = 0;
  int64_t flops = 0;
  AloneTimes alone;
};

// One kind of step.
struct OpRow {
  std::string phase;  // "decode", "prefill"
  int64_t rows = 0;   // of the step
  int64_t context = 0;
  std::vector<double> step_seconds;  // of recorded steps
  double bytes = 0;                  // floor_bytes()
  MatmulWork matmul;
  std::vector<OpLine> lines;  // slowest first
};

struct BenchReport {
  std::string kind;
  std::string device;
  std::string commit;
  std::string date;
  std::string model;
  std::string format;
  nlohmann::json settings;
  int64_t weight_bytes = 0;
  int64_t peak_resident_bytes = 0;
  ReadSpeed read;               // what the weights can expect
  ReadSpeed read_beyond_cache;  // of a buffer that no cache holds
  std::string baseline;         // whose times fraction_of_cublas compares with; empty: none
  double limit_flops = 0;       // a second, the best of the baseline; 0: not known
  std::vector<DecodeRow> decode;
  std::vector<PrefillRow> prefill;
  std::vector<OpRow> op;
};

nlohmann::json bench_json(const BenchReport& report);
std::string bench_text(const BenchReport& report);

}  // namespace ashlar

#endif  // ASHLAR_APPS_BENCH_REPORT_H_
