// Rows of a fused generated matrix from any row on: the bits that the host would have generated.
#include "formats/generated_rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "checkpoint/synthetic_tensor.h"

namespace ashlar {
namespace {

TEST(GeneratedRows, AreThoseOfTheHostAcrossParts) {
  const auto checkpoint = Checkpoint::open("synthetic:qwen3-0.6b?layers=1&vocab=512", {}).value();
  std::vector<TileSource> parts;
  std::vector<uint16_t> whole;
  for (const char* name : {"q", "k", "v"}) {
    const StoredTensor* tensor =
        checkpoint->find(std::string("model.layers.0.self_attn.") + name + "_proj.weight");
    ASSERT_NE(tensor, nullptr);
    TileSource part;
    part.rows.rows = tensor->rows();
    part.tensor = tensor;
    parts.push_back(part);
    const size_t old = whole.size();
    whole.resize(old + tensor->bytes / 2);
    std::memcpy(&whole[old], tensor->data(), tensor->bytes);
  }
  constexpr int64_t kInputs = 1024;
  const std::unique_ptr<Device> device = new_cpu_device(1);
  const std::unique_ptr<Stream> stream = device->new_stream();
  const int64_t rows = static_cast<int64_t>(whole.size()) / kInputs;
  const int64_t queries = parts[0].rows.rows;
  const int64_t keys = parts[1].rows.rows;
  struct Range {
    int64_t begin;
    int64_t count;
  };
  for (const Range r : {Range{0, 1}, Range{queries - 1, 1}, Range{queries, 2},
                        Range{queries - 3, keys + 7}, Range{rows - 2, 2}}) {
    std::vector<BF16> made(static_cast<size_t>(r.count * kInputs));
    generate_rows(*stream, parts, r.begin,
                  TensorView(made.data(), DType::kBF16, {r.count, kInputs}));
    EXPECT_EQ(std::memcmp(made.data(), &whole[static_cast<size_t>(r.begin * kInputs)],
                          made.size() * sizeof(BF16)),
              0)
        << r.begin << " " << r.count;
  }
}

}  // namespace
}  // namespace ashlar
