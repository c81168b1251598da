// --device: what is read, what is refused, and that a device asked for by name is never replaced.
#include "device_choice.h"

#include <gtest/gtest.h>

#include "device/cores.h"

namespace ashlar {
namespace {

using Kind = DeviceChoice::Kind;

DeviceOptions options(std::string device, int64_t threads = 0) {
  DeviceOptions options;
  options.device = std::move(device);
  options.threads = threads;
  return options;
}

TEST(DeviceChoice, ReadsEveryForm) {
  const struct {
    const char* text;
    Kind kind;
    int ordinal;
  } cases[] = {{"auto", Kind::kAuto, 0},
               {"cpu", Kind::kCpu, 0},
               {"cuda", Kind::kCuda, 0},
               {"cuda:0", Kind::kCuda, 0},
               {"cuda:15", Kind::kCuda, 15}};
  for (const auto& c : cases) {
    const auto choice = parse_device_choice(c.text);
    ASSERT_TRUE(choice) << c.text;
    EXPECT_EQ(choice->kind, c.kind) << c.text;
    EXPECT_EQ(choice->ordinal, c.ordinal) << c.text;
  }
}

TEST(DeviceChoice, RefusesEverythingElse) {
  for (const char* text : {"", "gpu", "CPU", "cpu:0", "auto:1", "cuda:", "cuda:-1", "cuda:1x",
                           "cuda: 1", "cuda1", "cuda:99999999999"}) {
    const auto choice = parse_device_choice(text);
    ASSERT_FALSE(choice) << text;
    EXPECT_EQ(choice.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(choice.error().message.find(fmt::format("--device: '{}'", text)), std::string::npos);
    EXPECT_FALSE(open_device(options(text))) << text;
  }
}

// Also where there is a GPU.
TEST(DeviceChoice, ThreadsMeanTheCpu) {
  for (const char* text : {"auto", "cpu"}) {
    const auto device = open_device(options(text, 1));
    ASSERT_TRUE(device);
    EXPECT_EQ((*device)->backend(), Backend::kCpu);
    EXPECT_EQ((*device)->thread_pool()->threads(), 1);
  }
}

TEST(DeviceChoice, MoreThreadsThanCoresAreRefused) {
  const auto device = open_device(options("cpu", usable_cores() + 1));
  ASSERT_FALSE(device);
  EXPECT_NE(device.error().message.find("--threads"), std::string::npos);
}

// By its name, with how to get the backend where the build has none.
TEST(DeviceChoice, ACudaDeviceThatIsNotThereIsRefused) {
  const auto device = open_device(options("cuda:1000"));
  ASSERT_FALSE(device);
  const std::string& message = device.error().message;
  EXPECT_NE(message.find("--device cuda:1000: "), std::string::npos) << message;
  EXPECT_EQ(message.find("built without the CUDA backend; `./do build cuda`") != std::string::npos,
            !has_cuda_backend())
      << message;
}

// A build without the backend says that first: without it no flag of its own matters.
TEST(DeviceChoice, ThreadsOnACudaDeviceAreRefused) {
  const auto device = open_device(options("cuda", 1));
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().message.find("--threads") != std::string::npos, has_cuda_backend());
}

}  // namespace
}  // namespace ashlar
