// Statistics and JSON of a benchmark. Numbers are derived here once; the table (bench_text.cc)
// prints what the JSON holds, so the two cannot disagree.
#include "bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ashlar {

namespace {

using nlohmann::json;

double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double scale = std::pow(10, 5 - std::ceil(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

double ratio(double value, double by) { return by > 0 ? rounded(value / by) : 0; }

// null where a side is not known.
json ratio_or_null(double value, double by) {
  return value > 0 && by > 0 ? json(rounded(value / by)) : json();
}

void add_times(json& out, const std::vector<double>& seconds) {
  out["step_ms_median"] = rounded(median(seconds) * 1e3);
  out["step_ms_p10"] = rounded(quantile(seconds, 0.1) * 1e3);
  out["step_ms_p90"] = rounded(quantile(seconds, 0.9) * 1e3);
  out["step_ms_p99"] = rounded(quantile(seconds, 0.99) * 1e3);
}

void add_matmuls(json& out, const MatmulWork& work) {
  out["matmul_tflops"] = ratio_or_null(work.flops * 1e-12, work.seconds);
  out["fraction_of_cublas"] = ratio_or_null(work.baseline_seconds, work.seconds);
}

json bare_json(const BareRun& bare, double tokens, double read_gb_s) {
  json out = {{"context", bare.context}, {"steps", bare.seconds.size()}, {"ops", bare.ops}};
  add_times(out, bare.seconds);
  const double middle = median(bare.seconds);
  out["tok_s"] = ratio(tokens, middle);
  out["bytes_per_step"] = bare.bytes > 0 ? json(std::llround(bare.bytes)) : json();
  out["fraction_of_read_bandwidth"] = ratio_or_null(bare.bytes * 1e-9, middle * read_gb_s);
  return out;
}

json decode_json(const DecodeRow& row, double read_gb_s) {
  const bool engine = !row.step_seconds.empty();
  const std::vector<double>& seconds = engine ? row.step_seconds : row.bare.seconds;
  const double bytes = engine ? row.step_bytes : row.bare.bytes;
  const double middle = median(seconds);
  const auto sequences = static_cast<double>(row.concurrency);
  const double bare_tok_s = ratio(sequences, median(row.bare.seconds));
  const double tok_s = engine ? median(row.output_tok_s) : bare_tok_s;
  json out = {{"concurrency", row.concurrency},
              {"path", engine ? "engine" : "bare"},
              {"steps", seconds.size()},
              {"output_tok_s", rounded(tok_s)},
              {"bytes_per_step", std::llround(bytes)},
              {"fraction_of_read_bandwidth", ratio_or_null(bytes * 1e-9, middle * read_gb_s)},
              {"engine_over_bare", engine ? ratio_or_null(tok_s, bare_tok_s) : json()},
              {"bare", bare_json(row.bare, sequences, read_gb_s)}};
  add_times(out, seconds);
  add_matmuls(out, row.bare.matmul);
  return out;
}

json prefill_json(const PrefillRow& row) {
  const bool engine = !row.seconds.empty();
  const std::vector<double>& seconds = engine ? row.seconds : row.bare.seconds;
  const double middle = median(seconds);
  const auto tokens = static_cast<double>(row.tokens);
  json bare = bare_json(row.bare, tokens, 0);
  json out = {
      {"tokens", row.tokens},
      {"path", engine ? "engine" : "bare"},
      {"seconds_median", rounded(middle)},
      {"seconds_min", rounded(quantile(seconds, 0))},
      {"tok_s", ratio(tokens, middle)},
      {"engine_over_bare", engine ? ratio_or_null(median(row.bare.seconds), middle) : json()},
      {"bare", std::move(bare)}};
  add_matmuls(out, row.bare.matmul);
  return out;
}

// The time that the memory's speed, or the best known rate of products, would need.
double limit_seconds(double bytes, double flops, const BenchReport& report) {
  const double reading = report.read.gb_s > 0 ? bytes * 1e-9 / report.read.gb_s : 0;
  const double computing = report.limit_flops > 0 ? flops / report.limit_flops : 0;
  return std::max(reading, computing);
}

json alone_json(const OpLine& line, const BenchReport& report) {
  if (line.alone.seconds.empty()) return {};
  const double calls = static_cast<double>(std::max<int64_t>(1, line.calls));
  const double middle = median(line.alone.seconds);
  const double bytes = static_cast<double>(line.bytes) / calls;
  const double flops = static_cast<double>(line.flops) / calls;
  return {{"us_median", rounded(middle * 1e6)},
          {"us_p99", rounded(quantile(line.alone.seconds, 0.99) * 1e6)},
          {"gb_s", ratio(bytes * 1e-9, middle)},
          {"tflop_s", ratio(flops * 1e-12, middle)},
          {"fraction_of_limit", ratio_or_null(limit_seconds(bytes, flops, report), middle)},
          {"beyond_cache", line.alone.beyond_cache},
          {"fraction_of_cublas", ratio_or_null(line.alone.baseline_seconds, middle)}};
}

json op_json(const OpRow& row, const BenchReport& report) {
  const double step = median(row.step_seconds);
  json lines = json::array();
  double inside = 0;
  int64_t calls = 0;
  for (const OpLine& line : row.lines) {
    inside += line.seconds;
    calls += line.calls;
    const auto bytes = static_cast<double>(line.bytes);
    const auto flops = static_cast<double>(line.flops);
    lines.push_back(
        {{"name", line.name},
         {"calls", line.calls},
         {"ms", rounded(line.seconds * 1e3)},
         {"share", ratio(line.seconds, step)},
         {"bytes", line.bytes},
         {"gb_s", ratio(bytes * 1e-9, line.seconds)},
         {"gflop_s", ratio(flops * 1e-9, line.seconds)},
         {"fraction_of_limit", ratio_or_null(limit_seconds(bytes, flops, report), line.seconds)},
         {"alone", alone_json(line, report)}});
  }
  json out = {
      {"phase", row.phase},
      {"rows", row.rows},
      {"context", row.context},
      {"steps", row.step_seconds.size()},
      {"step_ms", rounded(step * 1e3)},
      {"op_calls", calls},
      {"gaps_ms", rounded((step - inside) * 1e3)},
      {"gap_us_per_op",
       rounded((step - inside) * 1e6 / static_cast<double>(std::max<int64_t>(1, calls)))},
      {"bytes_per_step", std::llround(row.bytes)},
      {"fraction_of_read_bandwidth", ratio_or_null(row.bytes * 1e-9, step * report.read.gb_s)},
      {"ops", std::move(lines)}};
  add_times(out, row.step_seconds);
  add_matmuls(out, row.matmul);
  return out;
}

int64_t visible(const PagedState& layer, int64_t positions) {
  return layer.window > 0 ? std::min(positions, layer.window) : positions;
}

}  // namespace

double quantile(std::vector<double> samples, double share) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const double at = share * static_cast<double>(samples.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, samples.size() - 1);
  return samples[low] + (at - static_cast<double>(low)) * (samples[high] - samples[low]);
}

int64_t kv_read_bytes(const StateNeeds& needs, std::span<const int64_t> positions) {
  int64_t bytes = 0;
  for (const PagedState& layer : needs.paged) {
    for (const int64_t count : positions) bytes += layer.bytes_per_position * visible(layer, count);
  }
  return bytes;
}

int64_t floor_bytes(int64_t weight_bytes, const StateNeeds& needs,
                    std::span<const int64_t> positions) {
  int64_t state = 0;
  for (const ChunkState& layer : needs.chunk) state += layer.boundary_bytes;
  return weight_bytes + kv_read_bytes(needs, positions) +
         2 * state * static_cast<int64_t>(positions.size());
}

std::string why_invalid(const std::string& device_name, const ReadSpeed& read) {
  constexpr double kLeastOfH200 = 4450;
  if (read.bytes == 0 || device_name.find("H200") == std::string::npos) return "";
  if (read.gb_s >= kLeastOfH200) return "";
  return fmt::format(
      "plain reading reached {:.0f} GB/s; an H200 that is free and cool reads at least {:.0f}, so "
      "the other figures say nothing either",
      read.gb_s, kLeastOfH200);
}

json bench_json(const BenchReport& report) {
  json rows = json::array();
  for (const DecodeRow& row : report.decode) rows.push_back(decode_json(row, report.read.gb_s));
  for (const PrefillRow& row : report.prefill) rows.push_back(prefill_json(row));
  for (const OpRow& row : report.op) rows.push_back(op_json(row, report));
  const std::string invalid = why_invalid(report.device, report.read);
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? json() : json(text);
  };
  return {{"kind", report.kind},
          {"device", report.device},
          {"commit", report.commit},
          {"date", report.date},
          {"model", report.model},
          {"format", report.format},
          {"settings", report.settings},
          {"valid", report.read.bytes == 0 ? json() : json(invalid.empty())},
          {"invalid_reason", text_or_null(invalid)},
          {"weight_bytes", report.weight_bytes},
          {"peak_resident_bytes", report.peak_resident_bytes},
          {"measured_read_gb_s", rounded(report.read.gb_s)},
          {"measured_read_bytes", report.read.bytes},
          {"measured_read_beyond_cache_gb_s", rounded(report.read_beyond_cache.gb_s)},
          {"measured_read_beyond_cache_bytes", report.read_beyond_cache.bytes},
          {"processor_clock_mhz",
           report.read.clock_mhz > 0 ? json(rounded(report.read.clock_mhz)) : json()},
          {"cublas_baseline", text_or_null(report.baseline)},
          {"rows", rows}};
}

}  // namespace ashlar
