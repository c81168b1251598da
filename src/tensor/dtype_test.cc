// The 16-bit conversions over every 16-bit value and at every rounding edge. _Float16 is the
// compiler's own f16, an independent implementation.
#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ashlar {
namespace {

TEST(DType, F16WidensExactlyForEveryValue) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto want = static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(bits)));
    const float got = to_float(F16{static_cast<uint16_t>(bits)});
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(want), std::bit_cast<uint32_t>(got)) << bits;
    }
  }
}

TEST(DType, F16NarrowsToNearestEvenAroundEveryValue) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float low = to_float(F16{static_cast<uint16_t>(bits)});
    const float high = to_float(F16{static_cast<uint16_t>(bits + 1)});
    const float edge = bits + 1 == 0x7c00 ? 65520.0f : low + (high - low) / 2;
    for (float v : {low, edge, std::nextafter(edge, 0.0f), std::nextafter(edge, 1e9f)}) {
      for (float sign : {1.0f, -1.0f}) {
        const auto want = std::bit_cast<uint16_t>(static_cast<_Float16>(sign * v));
        ASSERT_EQ(to_f16(sign * v).bits, want) << sign * v;
      }
    }
  }
  EXPECT_EQ(to_f16(std::numeric_limits<float>::infinity()).bits, 0x7c00);
  EXPECT_TRUE(std::isnan(to_float(to_f16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(DType, BF16RoundsToNearestEven) {
  EXPECT_EQ(to_bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);  // tie, to even
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);  // tie, to even
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808001u)).bits, 0x3f81);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::quiet_NaN()).bits, 0x7fc0);
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    ASSERT_EQ(to_bf16(to_float(BF16{static_cast<uint16_t>(bits)})).bits, bits);
  }
}

}  // namespace
}  // namespace ashlar
