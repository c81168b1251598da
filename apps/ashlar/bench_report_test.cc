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

// llama-3.1-8b in bf16, by hand: a layer has 6144*4096 (q, k, v), 4096*4096 (o), 28672*4096 (gate
// and up) and 4096*14336 (down) elements, 218,103,808 together; 32 of them and the head of
// 128256*4096 are 7,504,658,432 elements. A position has 32 layers * 8 heads * 128 * (key and
// value).
TEST(BenchReport, TheFloorOfAnEightBillionModel) {
  constexpr int64_t kWeights = 2 * (32 * int64_t{218'103'808} + int64_t{128'256} * 4096);
  EXPECT_EQ(kWeights, 15'009'316'864);
  StateNeeds needs;
  for (int layer = 0; layer < 32; ++layer) needs.add_paged({.bytes_per_position = 4096});
  EXPECT_EQ(floor_bytes(kWeights, needs, std::vector<int64_t>{640}),
            15'009'316'864 + 640 * 131'072);
  EXPECT_EQ(floor_bytes(kWeights, needs, std::vector<int64_t>(16, 640)), 16'351'494'144);
  // Recurrent state goes in and out.
  needs.add_chunk({.boundary_bytes = 1000, .bytes_per_position = 3, .chunk_positions = 32});
  EXPECT_EQ(floor_bytes(7, needs, std::vector<int64_t>{0, 0}), 7 + 2 * 2 * 1000);
}

TEST(BenchReport, ASlowH200IsNoMeasurement) {
  const std::string h200 = "cuda: NVIDIA H200, 139 GiB";
  const int64_t bytes = int64_t{8} << 30;
  EXPECT_EQ(why_invalid(h200, {bytes, 4450}), "");
  EXPECT_NE(why_invalid(h200, {bytes, 4449}).find("4449 GB/s"), std::string::npos);
  EXPECT_EQ(why_invalid(h200, {}), "");  // not measured
  EXPECT_EQ(why_invalid("cuda: NVIDIA H100 80GB HBM3, 79 GiB", {bytes, 3000}), "");
  EXPECT_EQ(why_invalid("cpu: 2 threads", {bytes, 20}), "");
}

BenchReport report_of(std::string kind) {
  BenchReport report;
  report.kind = std::move(kind);
  report.settings = nlohmann::json::object();
  report.read = {1000, 20};
  return report;
}

BareRun bare_run() {
  BareRun bare;
  bare.context = 160;
  bare.seconds = {0.010, 0.018, 0.030};
  bare.bytes = 90e6;
  bare.ops = 12;
  bare.matmul = {.flops = 6e9, .seconds = 0.003, .baseline_seconds = 0.0024};
  return bare;
}

TEST(BenchReport, DecodeIsComparedWithTheReadSpeed) {
  BenchReport report = report_of("decode");
  DecodeRow row;
  row.concurrency = 4;
  row.step_seconds = {0.010, 0.020, 0.030};
  row.output_tok_s = {190, 210, 200};
  row.step_bytes = 100e6;
  row.bare = bare_run();
  report.decode.push_back(row);
  const nlohmann::json object = bench_json(report);
  const nlohmann::json& out = object["rows"][0];
  EXPECT_EQ(out["concurrency"], 4);
  EXPECT_EQ(out["path"], "engine");
  EXPECT_DOUBLE_EQ(out["step_ms_median"].get<double>(), 20);
  EXPECT_DOUBLE_EQ(out["step_ms_p10"].get<double>(), 12);
  EXPECT_DOUBLE_EQ(out["step_ms_p90"].get<double>(), 28);
  EXPECT_DOUBLE_EQ(out["step_ms_p99"].get<double>(), 29.8);
  EXPECT_DOUBLE_EQ(out["output_tok_s"].get<double>(), 200);
  EXPECT_EQ(out["bytes_per_step"], 100'000'000);
  // 100 MB in 20 ms are 5 GB/s of 20.
  EXPECT_DOUBLE_EQ(out["fraction_of_read_bandwidth"].get<double>(), 0.25);
  EXPECT_DOUBLE_EQ(out["matmul_tflops"].get<double>(), 2);
  EXPECT_DOUBLE_EQ(out["fraction_of_cublas"].get<double>(), 0.8);
  // 4 tokens in 18 ms.
  EXPECT_NEAR(out["bare"]["tok_s"].get<double>(), 222.22, 0.01);
  EXPECT_NEAR(out["engine_over_bare"].get<double>(), 0.9, 1e-4);
  EXPECT_DOUBLE_EQ(out["bare"]["fraction_of_read_bandwidth"].get<double>(), 0.25);
  EXPECT_EQ(out["bare"]["context"], 160);
  for (const char* field :
       {"device", "commit", "date", "model", "format", "settings", "measured_read_gb_s", "valid",
        "invalid_reason", "measured_read_bytes", "peak_resident_bytes", "processor_clock_mhz"}) {
    EXPECT_TRUE(object.contains(field)) << field;
  }
  EXPECT_EQ(object["valid"], true);
  EXPECT_NE(bench_text(report).find("25.0%"), std::string::npos) << bench_text(report);
}

TEST(BenchReport, WithoutAnEngineTheDeviceAloneCounts) {
  BenchReport report = report_of("decode");
  DecodeRow row;
  row.concurrency = 9;
  row.bare = bare_run();
  row.bare.matmul.baseline_seconds = 0;
  report.decode.push_back(row);
  const nlohmann::json out = bench_json(report)["rows"][0];
  EXPECT_EQ(out["path"], "bare");
  EXPECT_DOUBLE_EQ(out["step_ms_median"].get<double>(), 18);
  EXPECT_DOUBLE_EQ(out["output_tok_s"].get<double>(), 500);
  EXPECT_EQ(out["bytes_per_step"], 90'000'000);
  EXPECT_TRUE(out["engine_over_bare"].is_null());
  EXPECT_TRUE(out["fraction_of_cublas"].is_null());
}

TEST(BenchReport, AnInvalidRunSaysSo) {
  BenchReport report = report_of("op");
  report.device = "cuda: NVIDIA H200, 139 GiB";
  report.read = {int64_t{8} << 30, 4400, 1700};
  const nlohmann::json object = bench_json(report);
  EXPECT_EQ(object["valid"], false);
  EXPECT_TRUE(object["invalid_reason"].is_string());
  EXPECT_DOUBLE_EQ(object["processor_clock_mhz"].get<double>(), 1700);
  EXPECT_NE(bench_text(report).find("INVALID"), std::string::npos);
  report.read = {};
  EXPECT_TRUE(bench_json(report)["valid"].is_null());
}

TEST(BenchReport, PrefillCountsTokensOverTheMedian) {
  BenchReport report = report_of("prefill");
  PrefillRow row;
  row.tokens = 512;
  row.seconds = {2, 1, 4};
  row.bare.seconds = {1.6};
  report.prefill.push_back(row);
  const nlohmann::json out = bench_json(report)["rows"][0];
  EXPECT_DOUBLE_EQ(out["seconds_median"].get<double>(), 2);
  EXPECT_DOUBLE_EQ(out["tok_s"].get<double>(), 256);
  EXPECT_DOUBLE_EQ(out["bare"]["tok_s"].get<double>(), 320);
  EXPECT_DOUBLE_EQ(out["engine_over_bare"].get<double>(), 0.8);
  EXPECT_TRUE(out["matmul_tflops"].is_null());
}

TEST(BenchReport, OperationsOfAStepAddUpToItWithTheGaps) {
  BenchReport report = report_of("op");
  report.limit_flops = 8e9;
  OpRow row;
  row.phase = "decode";
  row.rows = 8;
  row.context = 100;
  row.step_seconds = {0.005, 0.004, 0.006};
  row.bytes = 50e6;
  OpLine matmul = {"matmul", 2, 0.003, 6'000'000, 12'000'000, {}};
  matmul.alone = {{0.001, 0.002, 0.003}, true, 0.001};
  row.lines = {matmul, {"rms_norm", 1, 0.001, 1000, 0, {}}};
  report.op.push_back(row);
  const nlohmann::json out = bench_json(report)["rows"][0];
  EXPECT_DOUBLE_EQ(out["step_ms"].get<double>(), 5);
  EXPECT_DOUBLE_EQ(out["gaps_ms"].get<double>(), 1);
  EXPECT_NEAR(out["gap_us_per_op"].get<double>(), 333.33, 0.01);
  EXPECT_DOUBLE_EQ(out["fraction_of_read_bandwidth"].get<double>(), 0.5);
  ASSERT_EQ(out["ops"].size(), 2u);
  const nlohmann::json& line = out["ops"][0];
  EXPECT_EQ(line["calls"], 2);
  EXPECT_DOUBLE_EQ(line["ms"].get<double>(), 3);
  EXPECT_DOUBLE_EQ(line["share"].get<double>(), 0.6);
  EXPECT_DOUBLE_EQ(line["gb_s"].get<double>(), 2);
  EXPECT_DOUBLE_EQ(line["gflop_s"].get<double>(), 4);
  // Reading needs 0.3 ms, computing 1.5 ms of its 3.
  EXPECT_DOUBLE_EQ(line["fraction_of_limit"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(line["alone"]["us_median"].get<double>(), 2000);
  EXPECT_DOUBLE_EQ(line["alone"]["us_p99"].get<double>(), 2980);
  EXPECT_DOUBLE_EQ(line["alone"]["gb_s"].get<double>(), 1.5);
  EXPECT_DOUBLE_EQ(line["alone"]["fraction_of_cublas"].get<double>(), 0.5);
  EXPECT_TRUE(out["ops"][1]["alone"].is_null());
  double ms = out["gaps_ms"].get<double>();
  for (const nlohmann::json& each : out["ops"]) ms += each["ms"].get<double>();
  EXPECT_NEAR(ms, 5, 1e-9);
  EXPECT_NE(bench_text(report).find("(gaps)"), std::string::npos);
}

TEST(BenchReport, AnEmptyMeasurementIsNoDivisionByZero) {
  BenchReport report = report_of("decode");
  report.read = {};
  report.decode.push_back({});
  const nlohmann::json out = bench_json(report)["rows"][0];
  EXPECT_TRUE(out["fraction_of_read_bandwidth"].is_null());
  EXPECT_EQ(out["step_ms_median"], 0);
  EXPECT_FALSE(bench_text(report).empty());
}

}  // namespace
}  // namespace ashlar
