// What the report of a start adds up and says.
#include "bench_start.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ashlar {
namespace {

StartReport report() {
  StartReport r;
  r.device = "cuda: H200";
  r.commit = "abc";
  r.model = "m";
  r.format = "BF16 100 %";
  r.checkpoint_seconds = 0.01;
  r.text_seconds = 0.4;
  r.times.device_seconds = 0.3;
  r.times.plan_seconds = 0.05;
  r.times.model_seconds = 1.5;
  r.times.load = {.done_bytes = 16'000'000'000,
                  .total_bytes = 16'000'000'000,
                  .seconds = 1.25,
                  .read_wait_seconds = 0.5,
                  .device_wait_seconds = 0.25,
                  .reading_seconds = 10,
                  .threads = 16,
                  .ring_bytes = 128'000'000};
  r.times.engine_seconds = 0.5;
  r.requests = {{0.11, 0.21}, {0.1, 0.2}};
  r.plan.device = r.device;
  r.plan.backend = Backend::kCuda;
  r.plan.total_bytes = 150'000'000'000;
  r.plan.weights_bytes = 16'000'000'000;
  r.used_bytes = 16'500'000'000;
  return r;
}

TEST(BenchStart, PartsAddUpToTheFirstToken) {
  const StartReport r = report();
  EXPECT_NEAR(r.ready_seconds(), 2.76, 1e-9);
  EXPECT_NEAR(r.first_token_seconds(), 2.87, 1e-9);
  EXPECT_NEAR(r.first_over_second(), 1.05, 1e-9);
  const nlohmann::json json = start_json(r);
  double sum = 0;
  for (const nlohmann::json& part : json.at("parts")) sum += part.at("seconds").get<double>();
  EXPECT_NEAR(sum, json.at("first_token_seconds").get<double>(), 1e-9) << json.dump();
  EXPECT_EQ(json.at("kind"), "start");
  EXPECT_EQ(json.at("load").at("threads"), 16);
  EXPECT_EQ(json.at("requests").size(), 2u);
  EXPECT_EQ(json.at("memory").at("weights_bytes"), 16'000'000'000);
  EXPECT_EQ(json.at("driver_used_bytes"), 16'500'000'000);
}

TEST(BenchStart, SaysWhereTheTimeWent) {
  const std::string text = start_text(report());
  for (const char* part :
       {"m on cuda: H200 (BF16 100 %), commit abc\n", "  tokenizer                     0.400 s\n",
        "  weights                       1.250 s   loaded 16.00 GB in 1.25 s, 12.8 GB/s; 16 "
        "threads "
        "read, 128 MB pinned; 0.500 s waiting for them, 0.250 s for the device\n",
        "  until the first token         2.870 s\n",
        "  1: whole answer               0.210 s   first token after 0.110 s\n",
        "  the first takes 1.05 times as long as the second\n",
        "  the driver says that 16.500 GB are in use; planned 16.000 GB\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

}  // namespace
}  // namespace ashlar
