// What the line says, halfway and at the end.
#include "load_line.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

TEST(LoadLine, SaysHowFarAndHowFast) {
  LoadProgress progress;
  progress.done_bytes = 3'200'000'000;
  progress.total_bytes = 16'380'000'000;
  progress.seconds = 0.25;
  EXPECT_EQ(load_text(progress), "loading 3.20 of 16.38 GB, 12.8 GB/s");
  progress.done_bytes = progress.total_bytes;
  progress.seconds = 1.3;
  EXPECT_EQ(load_text(progress), "loaded 16.38 GB in 1.30 s, 12.6 GB/s");
  progress = {};
  EXPECT_EQ(load_text(progress), "loaded 0.00 GB in 0.00 s, 0.0 GB/s");
}

TEST(LoadLine, NeverStopsALoad) {
  for (const bool always : {false, true}) {
    EXPECT_TRUE(load_line(always)({.done_bytes = 1, .total_bytes = 2, .seconds = 0.1}));
    EXPECT_TRUE(load_line(always)({.done_bytes = 2, .total_bytes = 2, .seconds = 0.1}));
  }
}

}  // namespace
}  // namespace ashlar
