// GGUF blocks: the truth against CRC-32 values of exact outputs that GGML's own C library gave for
// the same random blocks, and the vector decoders against the truth, bit by bit.
#include "formats/gguf_blocks/gguf_blocks.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "checkpoint/storage_type.h"
#include "testing/random_packed.h"

namespace ashlar {
namespace {

struct Case {
  StorageType type;
  const RowCodec* codec;
  uint64_t seed;
  uint32_t crc;
};

// Seed 300 + place in the list of vectors; 16 blocks below 80 bytes, else 4.
constexpr Case kCases[] = {
    {StorageType::kQ4_0, &q4_0_rows, 300, 0xd55c015c},
    {StorageType::kQ4_1, &q4_1_rows, 301, 0x62f12d5c},
    {StorageType::kQ5_0, &q5_0_rows, 302, 0x59f6cb5c},
    {StorageType::kQ5_1, &q5_1_rows, 303, 0x45d2bc91},
    {StorageType::kQ8_0, &q8_0_rows, 304, 0xb3af8424},
    {StorageType::kQ2_K, &q2_k_rows, 305, 0xad998631},
    {StorageType::kQ3_K, &q3_k_rows, 306, 0xfdbf4678},
    {StorageType::kQ4_K, &q4_k_rows, 307, 0x2a2bd0e2},
    {StorageType::kQ5_K, &q5_k_rows, 308, 0x3658a989},
    {StorageType::kQ6_K, &q6_k_rows, 309, 0x7c4ac4bb},
    {StorageType::kIQ4_NL, &iq4_nl_rows, 310, 0x79361587},
    {StorageType::kMXFP4, &mxfp4_rows, 311, 0x61b85d55},
};

uint32_t crc32(const void* data, size_t bytes) {
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < bytes; ++i) {
    crc ^= static_cast<const uint8_t*>(data)[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1u)));
  }
  return ~crc;
}

std::vector<float> decode(DecodeBlocks decoder, const RowCodec& codec, const std::byte* blocks,
                          int64_t count) {
  std::vector<float> values(static_cast<size_t>(count * codec.block_elements), -1.0f);
  decoder(blocks, count, values.data());
  return values;
}

TEST(GgufBlocks, TruthHasTheReferencesBits) {
  EXPECT_EQ(crc32("123456789", 9), 0xcbf43926u);
  for (const Case& c : kCases) {
    const int64_t count = c.codec->block_bytes < 80 ? 16 : 4;
    const std::vector<std::byte> blocks =
        random_packed(c.type, count * c.codec->block_elements, c.seed);
    const std::vector<float> values = decode(c.codec->truth, *c.codec, blocks.data(), count);
    EXPECT_EQ(crc32(values.data(), values.size() * sizeof(float)), c.crc) << c.codec->name;
  }
}

TEST(GgufBlocks, VectorDecodersHaveTheBitsOfTheTruth) {
  for (const Case& c : kCases) {
    for (const int shift : {-10, 0, 4}) {
      const int64_t count = 200;
      const std::vector<std::byte> blocks =
          random_packed(c.type, count * c.codec->block_elements, c.seed + 1000 + shift, shift);
      // A copy at an odd address: blocks are not aligned in a file.
      std::vector<std::byte> moved(blocks.size() + 1);
      std::copy(blocks.begin(), blocks.end(), moved.begin() + 1);
      const std::vector<float> truth = decode(c.codec->truth, *c.codec, blocks.data(), count);
      const std::vector<float> cpu = decode(c.codec->cpu, *c.codec, moved.data() + 1, count);
      for (size_t i = 0; i < truth.size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(truth[i]), std::bit_cast<uint32_t>(cpu[i]))
            << c.codec->name << " element " << i;
      }
    }
  }
}

TEST(GgufBlocks, SizesAreThoseOfTheFile) {
  for (const Case& c : kCases) {
    EXPECT_EQ(c.codec->name, storage_name(c.type));
    EXPECT_EQ(c.codec->block_elements, storage_info(c.type).block_elements) << c.codec->name;
    EXPECT_EQ(c.codec->block_bytes, storage_info(c.type).block_bytes) << c.codec->name;
    EXPECT_EQ(kLargestBlock % c.codec->block_elements, 0) << c.codec->name;
  }
}

// The Q4_K block that the format's description decodes by hand.
TEST(GgufBlocks, Q4KByHand) {
  const uint8_t head[] = {0x7b, 0x2e, 0xc6, 0xac, 0x07, 0xbf, 0x84, 0xa6, 0xbb,
                          0x78, 0xa5, 0x04, 0x37, 0xf8, 0x98, 0xb4, 0x76};
  std::vector<std::byte> block(144);
  for (size_t i = 0; i < sizeof(head); ++i) block[i] = std::byte{head[i]};
  block[16 + 64] = std::byte{0x82};
  const std::vector<float> values = decode(q4_k_rows.truth, q4_k_rows, block.data(), 1);
  EXPECT_NEAR(values[0], 8.65332f, 1e-5f);
  EXPECT_NEAR(values[128], 4.02808f, 1e-5f);
}

TEST(GgufBlocks, Mxfp4ScalesAtTheEnds) {
  std::vector<std::byte> block(17, std::byte{0x78});  // codes 8 (plus zero) and 7 (six)
  for (const auto& [exponent, six] : {std::pair{0, 0x1.8p-125f},
                                      {1, 0x1.8p-124f},
                                      {2, 0x1.8p-123f},
                                      {127, 6.0f},
                                      {252, 0x1.8p127f}}) {
    block[0] = static_cast<std::byte>(exponent);
    for (const DecodeBlocks decoder : {mxfp4_rows.truth, mxfp4_rows.cpu}) {
      const std::vector<float> values = decode(decoder, mxfp4_rows, block.data(), 1);
      EXPECT_EQ(std::bit_cast<uint32_t>(values[0]), 0u) << exponent;
      EXPECT_EQ(values[16], six) << exponent;
    }
  }
  EXPECT_TRUE(mxfp4_rows.valid(block.data(), 1));
  block[0] = std::byte{255};
  EXPECT_FALSE(mxfp4_rows.valid(block.data(), 1));
}

}  // namespace
}  // namespace ashlar
