// What a container allows, read from files as both versions of control groups have them.
#include "engine/memory_plan.h"

#include <gtest/gtest.h>

#include "testing/temp_dir.h"

namespace ashlar {
namespace {

class ContainerMemory : public testing::Test {
 protected:
  void write(std::string_view path, std::string_view text) { dir_.write(path, text); }
  std::optional<int64_t> read(std::string_view groups) {
    return container_memory_bytes(dir_.path().string(), groups);
  }
  TempDir dir_;
};

TEST_F(ContainerMemory, VersionTwoTakesTheLeastOfTheGroupAndThoseAbove) {
  write("memory.max", "max\n");
  EXPECT_EQ(read("0::/\n"), std::nullopt);
  write("a/memory.max", "3000000000\n");
  write("a/b/memory.max", "max\n");
  write("a/c/memory.max", "2000000000\n");
  EXPECT_EQ(read("0::/a/b\n"), 3000000000);
  EXPECT_EQ(read("0::/a/c\n"), 2000000000);
  EXPECT_EQ(read("0::/a\n"), 3000000000);
  EXPECT_EQ(read("0::/elsewhere\n"), std::nullopt);
  write("memory.max", "1000\n");
  EXPECT_EQ(read("0::/elsewhere/deep\n"), 1000) << "the path is that of the host";
}

TEST_F(ContainerMemory, VersionOneHasAFolderForMemory) {
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("memory/docker/x/memory.limit_in_bytes", "5000000000\n");
  write("cpu/docker/x/memory.limit_in_bytes", "5\n");
  EXPECT_EQ(read("5:cpu,cpuacct:/docker/x\n4:hugetlb,memory:/docker/x\n"), 5000000000);
  EXPECT_EQ(read("4:memory:/other\n0::/\n"), 9223372036854771712) << "that is how none is said";
}

TEST_F(ContainerMemory, NonsenseIsNoLimit) {
  write("memory.max", "12 apples");
  write("a/memory.max", "-5\n");
  write("b/memory.max", "");
  write("c/memory.max", "99999999999999999999\n");
  for (const char* groups : {"", "0::/\n", "0::/a", "0::/b\n", "0::/c\n", "0:", "x\n\n:::\n",
                             "0::/../memory.max", "4:memory:"}) {
    EXPECT_EQ(read(groups), std::nullopt) << groups;
  }
}

TEST_F(ContainerMemory, TheMachinesOwnIsSomething) { EXPECT_GT(machine_memory_bytes(), 1 << 20); }

}  // namespace
}  // namespace ashlar
