// The arithmetic between samples and the figures of a benchmark, and the fields that readers of the
// JSON rely on.
#include "bench_report.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

TEST(BenchReport, QuantilesLieBetweenNeighbours) {
  EXPECT_EQ(quantile({}, 0.5), 0);
  EXPECT_EQ(quantile({7}, 0.9), 7);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(quantile({0, 10}, 0.1), 1);
  EXPECT_EQ(quantile({5, 1, 4, 2, 3}, 1), 5);
  EXPECT_EQ(quantile({5, 1, 4, 2, 3}, 0), 1);
}

TEST(BenchReport, AWindowBoundsWhatAStepReadsOfTheCache) {
  StateNeeds needs;
  needs.add_paged({.bytes_per_position = 10, .window = 0});
  needs.add_paged({.bytes_per_position = 3, .window = 100});
  const std::vector<int64_t> positions = {50, 400};
  EXPECT_EQ(kv_read_bytes(needs, positions), 10 * 450 + 3 * (50 + 100));
  EXPECT_EQ(kv_read_bytes(needs, {}), 0);
}

BenchReport report_of(std::string kind) {
  BenchReport report;
  report.kind = std::move(kind);
  report.settings = nlohmann::json::object();
  report.read = {1000, 20};
  return report;
}

TEST(BenchReport, DecodeIsComparedWithTheReadSpeed) {
  BenchReport report = report_of("decode");
  DecodeRow row;
  row.concurrency = 4;
  row.step_seconds = {0.010, 0.020, 0.030};
  row.output_tok_s = {190, 210, 200};
  row.step_bytes = 100e6;
  report.decode.push_back(row);
  const nlohmann::json object = bench_json(report);
  const nlohmann::json& out = object["rows"][0];
  EXPECT_EQ(out["concurrency"], 4);
  EXPECT_DOUBLE_EQ(out["step_ms_median"].get<double>(), 20);
  EXPECT_DOUBLE_EQ(out["step_ms_p10"].get<double>(), 12);
  EXPECT_DOUBLE_EQ(out["step_ms_p90"].get<double>(), 28);
  EXPECT_DOUBLE_EQ(out["output_tok_s"].get<double>(), 200);
  // 100 MB in 20 ms are 5 GB/s of 20.
  EXPECT_DOUBLE_EQ(out["fraction_of_read_bandwidth"].get<double>(), 0.25);
  for (const char* field : {"device", "commit", "date", "model", "format", "settings",
                            "measured_read_gb_s", "measured_read_bytes", "peak_resident_bytes"}) {
    EXPECT_TRUE(object.contains(field)) << field;
  }
  EXPECT_NE(bench_text(report).find("25.0%"), std::string::npos) << bench_text(report);
}

TEST(BenchReport, PrefillCountsTokensOverTheMedian) {
  BenchReport report = report_of("prefill");
  report.prefill.push_back({512, {2, 1, 4}});
  const nlohmann::json out = bench_json(report)["rows"][0];
  EXPECT_DOUBLE_EQ(out["seconds_median"].get<double>(), 2);
  EXPECT_DOUBLE_EQ(out["tok_s"].get<double>(), 256);
}

TEST(BenchReport, OperationsAreMeansOfAStepAndAddUpToIt) {
  BenchReport report = report_of("op");
  OpRow row;
  row.phase = "decode";
  row.rows = 8;
  row.steps = 2;
  row.seconds = 0.010;
  row.lines = {{"matmul", 4, 0.006, 12'000'000, 24'000'000}, {"rms_norm", 2, 0.002, 2000, 0}};
  report.op.push_back(row);
  const nlohmann::json out = bench_json(report)["rows"][0];
  EXPECT_DOUBLE_EQ(out["step_ms"].get<double>(), 5);
  ASSERT_EQ(out["ops"].size(), 3u);
  const nlohmann::json& matmul = out["ops"][0];
  EXPECT_DOUBLE_EQ(matmul["calls"].get<double>(), 2);
  EXPECT_DOUBLE_EQ(matmul["ms"].get<double>(), 3);
  EXPECT_DOUBLE_EQ(matmul["share"].get<double>(), 0.6);
  EXPECT_DOUBLE_EQ(matmul["gb_s"].get<double>(), 2);
  EXPECT_DOUBLE_EQ(matmul["gflop_s"].get<double>(), 4);
  double ms = 0;
  for (const nlohmann::json& line : out["ops"]) ms += line["ms"].get<double>();
  EXPECT_NEAR(ms, 5, 1e-9);
}

TEST(BenchReport, AnEmptyMeasurementIsNoDivisionByZero) {
  BenchReport report = report_of("decode");
  report.read = {};
  report.decode.push_back({});
  const nlohmann::json out = bench_json(report)["rows"][0];
  EXPECT_EQ(out["fraction_of_read_bandwidth"], 0);
  EXPECT_EQ(out["step_ms_median"], 0);
}

}  // namespace
}  // namespace ashlar
