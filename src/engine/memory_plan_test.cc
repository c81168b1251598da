// The plan as a table: what options, sizes and memory become, on a CPU and on a GPU of 141 GB, and
// which number each refusal says to change to what.
#include "engine/memory_plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "testing/toy_model.h"

namespace ashlar {
namespace {

constexpr int64_t kGB = 1000000000;
constexpr int64_t kMB = 1000000;

// An 8B model of 36 layers in bf16: 4,096 bytes of KV a position and layer.
MemorySizes eight_b() {
  MemorySizes sizes;
  sizes.model_context = 40960;
  sizes.page_bytes.assign(36, 4096 * 32);
  sizes.weights_bytes = 16400 * kMB;
  sizes.workspace_bytes = 700 * kMB;
  sizes.runner = {.inputs = 3 * kMB, .logits = 39 * kMB, .sampling = 57 * kMB, .results = kMB};
  sizes.recordings_bytes = 28 * kMB;
  return sizes;
}

MemoryRoom h200() {
  return {.backend = Backend::kCuda,
          .device = "cuda: H200",
          .total_bytes = 150 * kGB,
          .used_bytes = 600 * kMB,
          .granularity = int64_t{2} << 20};
}

MemoryRoom machine(int64_t bytes) {
  return {.backend = Backend::kCpu, .device = "cpu: 2 threads", .total_bytes = bytes};
}

EngineOptions options_of(int64_t context, int64_t positions, int64_t batch, double fraction = 0) {
  EngineOptions options;
  options.max_context = context;
  options.kv_positions = positions;
  options.max_batch = batch;
  options.memory_fraction = fraction;
  return options;
}

std::string refusal(const EngineOptions& options, const MemorySizes& sizes,
                    const MemoryRoom& room) {
  const auto plan = plan_memory(options, sizes, room);
  return plan.has_value() ? "planned" : plan.error().message;
}

TEST(MemoryPlan, PagesGetWhatTheRestLeaves) {
  struct Row {
    EngineOptions options;
    int64_t context;
    int64_t positions;
  };
  const MemorySizes sizes = eight_b();
  const int64_t fixed = 600 * kMB + 16400 * kMB + 700 * kMB + 100 * kMB + 28 * kMB;
  const int64_t page = 36 * 4096 * 32;
  const int64_t lost = 36 * ((int64_t{2} << 20) - 1);
  const auto positions = [&](double fraction) {
    const int64_t budget = static_cast<int64_t>(150e9 * fraction) - fixed - lost;
    return budget / page * 32;
  };
  for (const Row& row :
       {Row{options_of(0, 0, 64), 40960, positions(0.9)},
        Row{options_of(0, 0, 64, 0.5), 40960, positions(0.5)},
        Row{options_of(0, 0, 64, 0.13), positions(0.13), positions(0.13)},
        Row{options_of(8192, 0, 64), 8192, 8192 * 64}, Row{options_of(0, 0, 16), 40960, 40960 * 16},
        Row{options_of(100, 0, 1), 100, 128}, Row{options_of(0, 5000, 4), 5024, 5024},
        Row{options_of(4096, 100000, 4), 4096, 100000}}) {
    const auto plan = plan_memory(row.options, sizes, h200());
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    EXPECT_EQ(plan->max_context, row.context);
    EXPECT_EQ(plan->kv_positions, row.positions);
    EXPECT_EQ(plan->kv_positions % 32, 0);
    const double fraction = row.options.memory_fraction > 0 ? row.options.memory_fraction : 0.9;
    EXPECT_EQ(plan->memory_fraction, fraction);
    EXPECT_LE(plan->planned_bytes(), static_cast<int64_t>(150e9 * fraction));
    EXPECT_EQ(plan->planned_bytes() + plan->free_bytes(), plan->total_bytes);
    EXPECT_EQ(plan->runner_bytes, 100 * kMB);
    // What is allocated, in whole units.
    EXPECT_GE(plan->kv_bytes, plan->kv_positions / 32 * page);
    EXPECT_EQ(plan->kv_bytes % (36 * (int64_t{2} << 20)), 0);
  }
}

TEST(MemoryPlan, OnTheCpuPagesGetAThird) {
  MemorySizes sizes = eight_b();
  const int64_t position = 36 * 4096;
  const auto plan = plan_memory(options_of(0, 0, 16), sizes, machine(96 * kGB));
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->kv_positions, 32 * kGB / (position * 32) * 32);
  EXPECT_EQ(plan->kv_bytes, plan->kv_positions * position);
  EXPECT_EQ(plan->memory_fraction, 0);
  EXPECT_EQ(plan->used_bytes, 0);
  // Asked for, the share is of everything.
  const auto share = plan_memory(options_of(0, 0, 16, 0.5), sizes, machine(96 * kGB));
  ASSERT_TRUE(share.has_value());
  EXPECT_EQ(share->kv_positions, (48 * kGB - 17228 * kMB) / (position * 32) * 32);
  // More than a third may be asked for in positions, as pages take memory only once used.
  EXPECT_EQ(plan_memory(options_of(0, 500000, 16), sizes, machine(96 * kGB))->kv_positions, 500000);
  EXPECT_EQ(refusal(options_of(0, 700000, 16), sizes, machine(96 * kGB)),
            fmt::format("kv_positions: 700000 are more than the {} that this machine's memory "
                        "holds",
                        96 * kGB / (position * 32) * 32));
  EXPECT_EQ(refusal(options_of(40960, 0, 1), sizes, machine(9 * kGB)),
            fmt::format("a context of 40960 positions needs 6.04 GB of KV, but 3.00 GB may be "
                        "used; lower max_context to {} or set kv_positions",
                        3 * kGB / (position * 32) * 32));
  sizes.page_bytes.clear();
  EXPECT_EQ(plan_memory(options_of(0, 0, 2), sizes, machine(kGB))->kv_positions, 2 * 40960);
}

TEST(MemoryPlan, OptionsThatContradictEachOther) {
  for (const MemoryRoom& room : {h200(), machine(96 * kGB)}) {
    EXPECT_EQ(refusal(options_of(50000, 0, 1), eight_b(), room),
              "max_context: 50000 is more than the 40960 positions of the model");
    EXPECT_EQ(refusal(options_of(128, 64, 1), eight_b(), room),
              "kv_positions: 64 is less than max_context 128");
  }
}

TEST(MemoryPlan, AModelThatDoesNotFit) {
  MemorySizes sizes = eight_b();
  MemoryRoom room = h200();
  // The share is too small, and the right one is named.
  EXPECT_EQ(refusal(options_of(0, 0, 64, 0.1), sizes, room),
            "the model does not fit: memory_fraction 0.1 of 150.00 GB on cuda: H200 leaves 0.00 GB "
            "(weights take 16.40 GB, buffers 0.83 GB, the driver and other programs 0.60 GB), and "
            "2.90 GB is needed; set memory_fraction to 0.12");
  EXPECT_TRUE(plan_memory(options_of(0, 0, 64, 0.12), sizes, room).has_value());
  // Another engine on the same GPU.
  room.used_bytes = 140 * kGB;
  EXPECT_EQ(refusal(options_of(0, 0, 64), sizes, room),
            "the model does not fit: memory_fraction 0.9 of 150.00 GB on cuda: H200 leaves 0.00 GB "
            "(weights take 16.40 GB, buffers 0.83 GB, the driver and other programs 140.00 GB), "
            "and 22.30 GB is needed; end other programs on it, which take up to 140.00 GB");
  // Too large for the GPU alone.
  room = h200();
  sizes.weights_bytes = 160 * kGB;
  EXPECT_NE(
      refusal(options_of(0, 0, 64), sizes, room).find("; take a smaller model or a larger device"),
      std::string::npos);
  // Buffers, not weights.
  sizes = eight_b();
  sizes.workspace_bytes = 140 * kGB;
  EXPECT_NE(refusal(options_of(0, 0, 64), sizes, room)
                .find("; lower step_rows, max_batch or max_context"),
            std::string::npos);
}

TEST(MemoryPlan, KvThatDoesNotFit) {
  const MemorySizes sizes = eight_b();
  const MemoryRoom room = h200();
  const std::string left =
      "memory_fraction 0.13 of 150.00 GB on cuda: H200 leaves 1.67 GB (weights take 16.40 GB, "
      "buffers 0.83 GB, the driver and other programs 0.60 GB)";
  EXPECT_EQ(refusal(options_of(20480, 0, 8, 0.13), sizes, room),
            "a context of 20480 positions needs 3.02 GB of KV, but " + left +
                "; lower max_context to 10816 or set memory_fraction to 0.14");
  EXPECT_TRUE(plan_memory(options_of(10816, 0, 8, 0.13), sizes, room).has_value());
  EXPECT_TRUE(plan_memory(options_of(20480, 0, 8, 0.14), sizes, room).has_value());
  EXPECT_EQ(refusal(options_of(0, 20480, 8, 0.13), sizes, room),
            "kv_positions: 20480 need 3.02 GB, but " + left +
                "; lower it to 10816 or set memory_fraction to 0.14");
  EXPECT_TRUE(plan_memory(options_of(0, 10816, 8, 0.13), sizes, room).has_value());
  EXPECT_EQ(refusal(options_of(0, 2000000, 8), sizes, room).find("kv_positions: 2000000 need "),
            0u);
}

TEST(MemoryPlan, SaysItself) {
  const auto plan = plan_memory(options_of(0, 0, 64), eight_b(), h200());
  ASSERT_TRUE(plan.has_value());
  const std::string text = memory_plan_text(*plan);
  EXPECT_EQ(text.find("memory of cuda: H200, in GB\n  driver, other programs        0.600\n"
                      "  weights                      16.400\n  KV   "),
            0u)
      << text;
  EXPECT_NE(
      text.find(fmt::format("{} positions, at most 40960 of a sequence\n", plan->kv_positions)),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("  total                       150.000\n"), std::string::npos) << text;
  const nlohmann::json json = memory_plan_json(*plan);
  int64_t sum = 0;
  for (const auto& [key, value] : json.items()) {
    if (key.ends_with("_bytes") && key != "total_bytes") sum += value.get<int64_t>();
  }
  EXPECT_EQ(json.at("total_bytes"), sum) << json.dump();

  const auto cpu = plan_memory(options_of(0, 0, 1), eight_b(), machine(96 * kGB));
  EXPECT_EQ(memory_plan_text(*cpu).find("driver"), std::string::npos);
}

TEST(MemoryPlan, TheDriverIsAsked) {
  const auto plan = plan_memory(options_of(0, 0, 64), eight_b(), h200());
  ASSERT_TRUE(plan.has_value());
  const auto warning = [&](int64_t more) {
    DeviceMemory now;
    now.total_bytes = static_cast<size_t>(plan->total_bytes);
    now.free_bytes = static_cast<size_t>(plan->free_bytes() - more);
    return plan_warning(*plan, now).value_or("");
  };
  EXPECT_EQ(warning(0), "");
  EXPECT_EQ(warning(1300 * kMB), "");
  EXPECT_EQ(warning(-1300 * kMB), "");
  EXPECT_NE(warning(1400 * kMB).find("1.400 GB more"), std::string::npos) << warning(1400 * kMB);
  EXPECT_NE(warning(-1400 * kMB).find("1.400 GB less"), std::string::npos);
  EXPECT_EQ(plan_warning(*plan, DeviceMemory{}), std::nullopt);
}

TEST(MemoryPlan, SizesOfAModel) {
  ToyModel model(80, 73, 400);
  EngineOptions options = options_of(0, 0, 8);
  options.step_rows = 100;
  const MemorySizes cpu = memory_sizes(options, model, Backend::kCpu, 0);
  EXPECT_EQ(cpu.model_context, 400);
  EXPECT_EQ(cpu.all_page_bytes(), model.state_needs().page_bytes());
  EXPECT_EQ(cpu.workspace_bytes, model.workspace_bytes(100, 8));
  EXPECT_EQ(cpu.runner.logits, 8 * 80 * 4);
  EXPECT_EQ(cpu.runner.sampling + cpu.runner.results + cpu.recordings_bytes, 0);
  const MemorySizes gpu = memory_sizes(options, model, Backend::kCuda, 2);
  EXPECT_EQ(gpu.runner.logits, 3 * 8 * 80 * 4);
  EXPECT_GT(gpu.runner.sampling, 8 * 73 * 4);
  EXPECT_EQ(gpu.recordings_bytes, recordings_of(options, 2) * kRecordingBytes);
  EXPECT_EQ(recordings_of(options_of(0, 0, 1), 0), 2);
  EXPECT_EQ(recordings_of(options_of(0, 0, 64), 0), 2 * 20);
  EXPECT_EQ(recordings_of(options_of(0, 0, 64), 3), 2 * 2 * 20) << "with and without drafts";
  EngineOptions direct = options_of(0, 0, 64);
  direct.graphs = "off";
  EXPECT_EQ(recordings_of(direct, 0), 0);
}

}  // namespace
}  // namespace ashlar
