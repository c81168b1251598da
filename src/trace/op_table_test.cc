// The table counts each call once and keeps operations apart.
#include "trace/op_table.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

TEST(OpTable, AddsUpByName) {
  const auto device = new_cpu_device(1);
  const auto stream = device->new_stream();
  OpTable table;
  for (int i = 0; i < 3; ++i) {
    table.op_begin(*stream, {"matmul", 100, 50});
    table.op_end(*stream, {"matmul", 100, 50});
  }
  table.op_begin(*stream, {"rms_norm", 8, 4});
  table.op_end(*stream, {"rms_norm", 8, 4});
  ASSERT_EQ(table.rows().size(), 2u);
  const OpTable::Row& row = table.rows().find("matmul")->second;
  EXPECT_EQ(row.calls, 3);
  EXPECT_EQ(row.bytes, 300);
  EXPECT_EQ(row.flops, 150);
  EXPECT_GE(row.seconds, 0.0);
  EXPECT_NE(table.text().find("rms_norm"), std::string::npos);
}

}  // namespace
}  // namespace ashlar
