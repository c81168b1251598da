// What a benchmark found, as plain values, and how it is written: statistics, one JSON object, a
// table for people. Measures nothing itself.
#ifndef ASHLAR_APPS_BENCH_REPORT_H_
#define ASHLAR_APPS_BENCH_REPORT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
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

struct ReadSpeed {
  int64_t bytes = 0;  // of the buffer, all of which each pass reads; 0: not measured
  double gb_s = 0;
};

struct DecodeRow {
  int64_t concurrency = 0;
  std::vector<double> step_seconds;
  std::vector<double> output_tok_s;  // one a repetition
  double step_bytes = 0;             // that a step must read: weights once, and the cache
};

struct PrefillRow {
  int64_t tokens = 0;
  std::vector<double> seconds;  // one a repetition
};

struct OpLine {
  std::string name;
  int64_t calls = 0;
  double seconds = 0;
  int64_t bytes = 0;
  int64_t flops = 0;
};

// One kind of step; all sums are over `steps` of them.
struct OpRow {
  std::string phase;  // "decode", "prefill"
  int64_t rows = 0;
  int64_t steps = 0;
  double seconds = 0;         // whole steps, with planning and sampling
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
  ReadSpeed read;               // a buffer of the weights' size
  ReadSpeed read_beyond_cache;  // one that no cache holds
  std::vector<DecodeRow> decode;
  std::vector<PrefillRow> prefill;
  std::vector<OpRow> op;
};

nlohmann::json bench_json(const BenchReport& report);
std::string bench_text(const BenchReport& report);

}  // namespace ashlar

#endif  // ASHLAR_APPS_BENCH_REPORT_H_
