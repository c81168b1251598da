// The table of a benchmark for people, from its JSON.
#include <fmt/format.h>

#include <string>

#include "bench_report.h"

namespace ashlar {

namespace {

using nlohmann::json;

// A number of a row, or a dash where it is not known.
std::string cell(const json& value, int width, int digits, double factor = 1,
                 const char* unit = "") {
  if (!value.is_number()) return fmt::format("{:>{}}", "-", width);
  const std::string number = fmt::format("{:.{}f}{}", value.get<double>() * factor, digits, unit);
  return fmt::format("{:>{}}", number, width);
}

std::string decode_text(const json& rows) {
  std::string out =
      fmt::format("{:>11} {:>6} {:>7} {:>10} {:>9} {:>9} {:>11} {:>8} | {:>9} {:>9} {:>8} {:>7}\n",
                  "concurrency", "path", "steps", "ms median", "ms p10", "ms p99", "tok/s",
                  "of read", "bare ms", "context", "of read", "eng/bare");
  for (const json& row : rows) {
    const json& bare = row["bare"];
    out += fmt::format(
        "{:>11} {:>6} {:>7} {} {} {} {} {} | {} {:>9} {} {}\n", row["concurrency"].get<int64_t>(),
        row["path"].get<std::string>(), row["steps"].get<int64_t>(),
        cell(row["step_ms_median"], 10, 3), cell(row["step_ms_p10"], 9, 3),
        cell(row["step_ms_p99"], 9, 3), cell(row["output_tok_s"], 11, 2),
        cell(row["fraction_of_read_bandwidth"], 8, 1, 100, "%"), cell(bare["step_ms_median"], 9, 3),
        bare["context"].get<int64_t>(), cell(bare["fraction_of_read_bandwidth"], 8, 1, 100, "%"),
        cell(row["engine_over_bare"], 8, 3));
  }
  return out;
}

std::string prefill_text(const json& rows) {
  std::string out = fmt::format("{:>8} {:>6} {:>12} {:>12} {:>10} | {:>10} {:>8} {:>14} {:>10}\n",
                                "tokens", "path", "s median", "s least", "tok/s", "bare tok/s",
                                "eng/bare", "matmul TFLOP/s", "of cuBLAS");
  for (const json& row : rows) {
    out += fmt::format("{:>8} {:>6} {} {} {} | {} {} {} {}\n", row["tokens"].get<int64_t>(),
                       row["path"].get<std::string>(), cell(row["seconds_median"], 12, 4),
                       cell(row["seconds_min"], 12, 4), cell(row["tok_s"], 10, 1),
                       cell(row["bare"]["tok_s"], 10, 1), cell(row["engine_over_bare"], 8, 3),
                       cell(row["matmul_tflops"], 14, 2),
                       cell(row["fraction_of_cublas"], 10, 1, 100, "%"));
  }
  return out;
}

constexpr std::string_view kOpFoot =
    "ms: within steps, by events around each call, which switch off the overlap of kernels; gaps: "
    "a "
    "recorded step without events, less their sum, below 0 where overlap gains more than gaps "
    "cost.\nalone: calls of one kind recorded one behind the other, over all layers and rotating "
    "copies; *: they fit into the cache all the same.\n";

std::string op_line_text(const json& line) {
  const json& alone = line["alone"];
  const bool has_alone = alone.is_object();
  const json none;
  const auto of_alone = [&](const char* field) -> const json& {
    return has_alone ? alone[field] : none;
  };
  return fmt::format(
      "  {:<34} {:>5} {} {} {} {} {} | {} {} {} {} {} {}{}\n", line["name"].get<std::string>(),
      line["calls"].get<int64_t>(), cell(line["ms"], 9, 3), cell(line["share"], 6, 1, 100),
      cell(line["gb_s"], 8, 1), cell(line["gflop_s"], 9, 0),
      cell(line["fraction_of_limit"], 7, 1, 100, "%"), cell(of_alone("us_median"), 10, 2),
      cell(of_alone("us_p99"), 10, 2), cell(of_alone("gb_s"), 8, 1),
      cell(of_alone("tflop_s"), 8, 2), cell(of_alone("fraction_of_limit"), 7, 1, 100, "%"),
      cell(of_alone("fraction_of_cublas"), 7, 1, 100, "%"),
      has_alone && !alone["beyond_cache"].get<bool>() ? " *" : "");
}

std::string op_text(const json& rows) {
  std::string out;
  for (const json& row : rows) {
    out += fmt::format(
        "{} step of {} rows, context {}: {:.3f} ms recorded (p99 {:.3f}), {} of the read speed\n",
        row["phase"].get<std::string>(), row["rows"].get<int64_t>(), row["context"].get<int64_t>(),
        row["step_ms"].get<double>(), row["step_ms_p99"].get<double>(),
        cell(row["fraction_of_read_bandwidth"], 0, 1, 100, "%"));
    out += fmt::format(
        "  {:<34} {:>5} {:>9} {:>6} {:>8} {:>9} {:>7} | {:>10} {:>10} {:>8} {:>8} {:>7} {:>7}\n",
        "operation", "calls", "ms", "%", "GB/s", "GFLOP/s", "limit", "alone us", "p99 us", "GB/s",
        "TFLOP/s", "limit", "cuBLAS");
    for (const json& line : row["ops"]) out += op_line_text(line);
    out += fmt::format("  {:<34} {:>5} {} {} us each\n\n", "(gaps)", row["op_calls"].get<int64_t>(),
                       cell(row["gaps_ms"], 9, 3), cell(row["gap_us_per_op"], 6, 2));
  }
  out += kOpFoot;
  return out;
}

std::string read_text(const BenchReport& report) {
  constexpr double kMega = 1e-6;
  std::string out;
  for (const ReadSpeed& read : {report.read, report.read_beyond_cache}) {
    if (read.bytes == 0) continue;
    out += fmt::format("plain reading of {:.1f} MB: {:.2f} GB/s",
                       static_cast<double>(read.bytes) * kMega, read.gb_s);
    if (read.clock_mhz > 0) out += fmt::format(", processors at {:.0f} MHz", read.clock_mhz);
    out += "\n";
  }
  return out;
}

}  // namespace

std::string bench_text(const BenchReport& report) {
  const json object = bench_json(report);
  const json& rows = object["rows"];
  std::string out = fmt::format("{} of {} ({}) on {}\n\n", report.kind, report.model, report.format,
                                report.device);
  if (!report.decode.empty()) out += decode_text(rows) + "\n";
  if (!report.prefill.empty()) out += prefill_text(rows) + "\n";
  if (!report.op.empty()) out += op_text(rows);
  constexpr double kMega = 1e-6;
  out += fmt::format("a step reads {:.1f} MB of weights; peak resident {:.1f} MB\n",
                     static_cast<double>(report.weight_bytes) * kMega,
                     static_cast<double>(report.peak_resident_bytes) * kMega);
  out += read_text(report);
  if (object["invalid_reason"].is_string()) {
    out += fmt::format("INVALID: {}\n", object["invalid_reason"].get<std::string>());
  }
  return out;
}

}  // namespace ashlar
