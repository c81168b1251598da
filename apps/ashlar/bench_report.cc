// Statistics, JSON and table of a benchmark. Numbers are derived here once, as JSON, and the table
// prints what the JSON holds, so the two cannot disagree.
#include "bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ashlar {

namespace {

double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double scale = std::pow(10, 5 - std::ceil(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

double ratio(double value, double by) { return by > 0 ? rounded(value / by) : 0; }

nlohmann::json decode_json(const DecodeRow& row, double read_gb_s) {
  const double middle = median(row.step_seconds);
  return {{"concurrency", row.concurrency},
          {"steps", row.step_seconds.size()},
          {"step_ms_median", rounded(middle * 1e3)},
          {"step_ms_p10", rounded(quantile(row.step_seconds, 0.1) * 1e3)},
          {"step_ms_p90", rounded(quantile(row.step_seconds, 0.9) * 1e3)},
          {"output_tok_s", rounded(median(row.output_tok_s))},
          {"step_bytes", std::llround(row.step_bytes)},
          {"fraction_of_read_bandwidth", ratio(row.step_bytes * 1e-9, middle * read_gb_s)}};
}

nlohmann::json prefill_json(const PrefillRow& row) {
  const double middle = median(row.seconds);
  return {{"tokens", row.tokens},
          {"seconds_median", rounded(middle)},
          {"seconds_min", rounded(quantile(row.seconds, 0))},
          {"tok_s", ratio(static_cast<double>(row.tokens), middle)}};
}

nlohmann::json op_json(const OpRow& row) {
  const auto steps = static_cast<double>(row.steps);
  const auto line_json = [&](const std::string& name, double calls, double seconds, double bytes,
                             double flops) {
    return nlohmann::json{{"name", name},
                          {"calls", rounded(calls / steps)},
                          {"ms", rounded(seconds / steps * 1e3)},
                          {"share", ratio(seconds, row.seconds)},
                          {"gb_s", ratio(bytes * 1e-9, seconds)},
                          {"gflop_s", ratio(flops * 1e-9, seconds)}};
  };
  nlohmann::json lines = nlohmann::json::array();
  double inside = 0;
  for (const OpLine& line : row.lines) {
    inside += line.seconds;
    lines.push_back(line_json(line.name, static_cast<double>(line.calls), line.seconds,
                              static_cast<double>(line.bytes), static_cast<double>(line.flops)));
  }
  lines.push_back(
      line_json("(outside operations)", steps, std::max(0.0, row.seconds - inside), 0, 0));
  return {{"phase", row.phase},
          {"rows", row.rows},
          {"steps", row.steps},
          {"step_ms", ratio(row.seconds * 1e3, steps)},
          {"ops", lines}};
}

std::string decode_text(const nlohmann::json& rows) {
  std::string out = fmt::format("{:>11} {:>7} {:>10} {:>9} {:>9} {:>11} {:>14}\n", "concurrency",
                                "steps", "ms median", "ms p10", "ms p90", "tok/s", "of read speed");
  for (const nlohmann::json& row : rows) {
    out += fmt::format("{:>11} {:>7} {:>10.3f} {:>9.3f} {:>9.3f} {:>11.2f} {:>13.1f}%\n",
                       row["concurrency"].get<int64_t>(), row["steps"].get<int64_t>(),
                       row["step_ms_median"].get<double>(), row["step_ms_p10"].get<double>(),
                       row["step_ms_p90"].get<double>(), row["output_tok_s"].get<double>(),
                       100 * row["fraction_of_read_bandwidth"].get<double>());
  }
  return out;
}

std::string prefill_text(const nlohmann::json& rows) {
  std::string out =
      fmt::format("{:>8} {:>12} {:>12} {:>10}\n", "tokens", "s median", "s least", "tok/s");
  for (const nlohmann::json& row : rows) {
    out += fmt::format("{:>8} {:>12.4f} {:>12.4f} {:>10.1f}\n", row["tokens"].get<int64_t>(),
                       row["seconds_median"].get<double>(), row["seconds_min"].get<double>(),
                       row["tok_s"].get<double>());
  }
  return out;
}

std::string op_text(const nlohmann::json& rows) {
  std::string out;
  for (const nlohmann::json& row : rows) {
    out += fmt::format("{} step of {} rows: {:.3f} ms (mean of {})\n",
                       row["phase"].get<std::string>(), row["rows"].get<int64_t>(),
                       row["step_ms"].get<double>(), row["steps"].get<int64_t>());
    out += fmt::format("  {:<32} {:>7} {:>10} {:>6} {:>9} {:>9}\n", "operation", "calls", "ms", "%",
                       "GB/s", "GFLOP/s");
    for (const nlohmann::json& line : row["ops"]) {
      out += fmt::format("  {:<32} {:>7.0f} {:>10.3f} {:>6.1f} {:>9.2f} {:>9.1f}\n",
                         line["name"].get<std::string>(), line["calls"].get<double>(),
                         line["ms"].get<double>(), 100 * line["share"].get<double>(),
                         line["gb_s"].get<double>(), line["gflop_s"].get<double>());
    }
    out += "\n";
  }
  return out;
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
    for (const int64_t count : positions) {
      bytes +=
          layer.bytes_per_position * (layer.window > 0 ? std::min(count, layer.window) : count);
    }
  }
  return bytes;
}

nlohmann::json bench_json(const BenchReport& report) {
  nlohmann::json rows = nlohmann::json::array();
  for (const DecodeRow& row : report.decode) rows.push_back(decode_json(row, report.read.gb_s));
  for (const PrefillRow& row : report.prefill) rows.push_back(prefill_json(row));
  for (const OpRow& row : report.op) rows.push_back(op_json(row));
  return {{"kind", report.kind},
          {"device", report.device},
          {"commit", report.commit},
          {"date", report.date},
          {"model", report.model},
          {"format", report.format},
          {"settings", report.settings},
          {"weight_bytes", report.weight_bytes},
          {"peak_resident_bytes", report.peak_resident_bytes},
          {"measured_read_gb_s", rounded(report.read.gb_s)},
          {"measured_read_bytes", report.read.bytes},
          {"measured_read_beyond_cache_gb_s", rounded(report.read_beyond_cache.gb_s)},
          {"measured_read_beyond_cache_bytes", report.read_beyond_cache.bytes},
          {"rows", rows}};
}

std::string bench_text(const BenchReport& report) {
  const nlohmann::json object = bench_json(report);
  const nlohmann::json& rows = object["rows"];
  std::string out = fmt::format("{} of {} ({}) on {}\n\n", report.kind, report.model, report.format,
                                report.device);
  if (!report.decode.empty()) out += decode_text(rows) + "\n";
  if (!report.prefill.empty()) out += prefill_text(rows) + "\n";
  if (!report.op.empty()) out += op_text(rows);
  constexpr double kMega = 1e-6;
  out += fmt::format("a step reads {:.1f} MB of weights; peak resident {:.1f} MB\n",
                     static_cast<double>(report.weight_bytes) * kMega,
                     static_cast<double>(report.peak_resident_bytes) * kMega);
  for (const ReadSpeed& read : {report.read, report.read_beyond_cache}) {
    if (read.bytes == 0) continue;
    out += fmt::format("plain reading of {:.1f} MB: {:.2f} GB/s\n",
                       static_cast<double>(read.bytes) * kMega, read.gb_s);
  }
  return out;
}

}  // namespace ashlar
