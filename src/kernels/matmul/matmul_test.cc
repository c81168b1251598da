// matmul: the reference against double precision within the computed tolerance, the CPU cell
// against the reference bit by bit on every instruction set, the row rule, and what fusing must not
// change. Real weight formats are swept in formats/; here the weights are f32 and one made-up
// block.
#include "kernels/matmul/matmul.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "testing/random.h"
#include "testing/tolerance.h"
#include "testing/vector_targets.h"

namespace ashlar {
namespace {

void decode_floats(const std::byte* values, int64_t count, float* out) {
  std::memcpy(out, values, static_cast<size_t>(count) * sizeof(float));
}
constexpr RowCodec kFloats = {"floats", 1, 4, decode_floats, decode_floats};

// A made-up packing: 32 signed bytes, each 1/64 of a unit.
void decode_bytes(const std::byte* blocks, int64_t count, float* out) {
  for (int64_t i = 0; i < count * 32; ++i)
    out[i] = static_cast<float>(static_cast<int8_t>(blocks[i])) / 64;
}
constexpr RowCodec kBytes = {"bytes", 32, 32, decode_bytes, decode_bytes};

struct Matrix {
  const RowCodec* codec;
  int64_t rows;
  int64_t inputs;
  std::vector<std::byte> data;

  PackedRows packed() const {
    return {codec, data.data(), rows, inputs / codec->block_elements * codec->block_bytes};
  }
};

Matrix random_matrix(const RowCodec& codec, int64_t rows, int64_t inputs, uint64_t seed) {
  Matrix matrix = {&codec, rows, inputs, {}};
  if (&codec == &kBytes) {
    matrix.data = random_bytes(seed, rows * inputs);
  } else {
    const std::vector<float> values = random_floats(seed, rows * inputs, 1.0f);
    matrix.data.resize(values.size() * sizeof(float));
    std::memcpy(matrix.data.data(), values.data(), matrix.data.size());
  }
  return matrix;
}

TensorView view(std::vector<float>& values, int64_t rows, int64_t columns) {
  return {values.data(), DType::kF32, {rows, columns}};
}

enum class Cell { kReference, kCpu };

// y of one call; y starts as `y`. x is [rows K].
std::vector<float> run(std::span<const PackedRows> weight, std::vector<float> x, int64_t rows,
                       const Epilogue& epilogue, std::vector<float> y, Cell cell = Cell::kCpu,
                       int threads = 1) {
  const std::unique_ptr<Device> device = new_cpu_device(threads);
  const std::unique_ptr<Stream> stream = device->new_stream();
  const int64_t inputs = static_cast<int64_t>(x.size()) / rows;
  const int64_t scratch_bytes = matmul_scratch_bytes(rows, threads);
  const Buffer scratch = device->allocate(static_cast<size_t>(scratch_bytes)).value();
  MatmulArgs args = {.x = view(x, rows, inputs),
                     .weight = weight,
                     .y = view(y, rows, static_cast<int64_t>(y.size()) / rows),
                     .epilogue = epilogue,
                     .scratch = scratch.view(DType::kU8, {scratch_bytes})};
  if (cell == Cell::kReference) {
    matmul.reference(*stream, args);
  } else {
    matmul(*stream, args);
  }
  return y;
}

void expect_same_bits(std::span<const float> got, std::span<const float> wanted,
                      const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(wanted[i]))
        << what << ", element " << i << ": " << got[i] << " against " << wanted[i];
  }
}

struct Case {
  const RowCodec* codec;
  int64_t rows, outputs, inputs;
  GatedActivation gated = GatedActivation::kNone;
  bool bias = false;
  bool add = false;
  int64_t decodable = 0;
};

const Case kCases[] = {
    {&kFloats, 1, 1, 1},
    {&kFloats, 1, 17, 15},
    {&kFloats, 2, 16, 16, GatedActivation::kNone, true},
    {&kFloats, 3, 33, 17, GatedActivation::kNone, false, true},
    {&kFloats, 8, 100, 1041},
    {&kFloats, 9, 31, 63, GatedActivation::kNone, true, true},
    {&kFloats, 70, 130, 257},
    {&kBytes, 1, 64, 576, GatedActivation::kSilu},
    {&kBytes, 1, 50, 1536, GatedActivation::kNone, false, false, 37},
    {&kBytes, 5, 66, 544, GatedActivation::kGeluTanh, true},
    {&kBytes, 7, 48, 512, GatedActivation::kNone, false, false, 16},
    {&kBytes, 13, 98, 2080, GatedActivation::kSilu, true},
    {&kBytes, 33, 65, 1056, GatedActivation::kNone, true, true},
    {&kBytes, 200, 40, 1120, GatedActivation::kNone, false, false, 39},
    {&kBytes, 400, 70, 96, GatedActivation::kGeluTanh},
};

std::string describe(const Case& c) {
  return fmt::format("{} M={} N={} K={} gated={} bias={} add={} decodable={}", c.codec->name,
                     c.rows, c.outputs, c.inputs, static_cast<int>(c.gated), c.bias, c.add,
                     c.decodable);
}

struct Prepared {
  Matrix weight;
  std::vector<float> x, y, bias;
  Epilogue epilogue;
};

Prepared prepare(const Case& c) {
  Prepared p = {
      .weight = random_matrix(*c.codec, c.outputs, c.inputs, 7),
      .x = random_floats(8, c.rows * c.inputs, 2.0f),
      .y = random_floats(
          9, c.rows * (c.gated == GatedActivation::kNone ? c.outputs : c.outputs / 2), 1.0f),
      .bias = random_floats(10, c.outputs, 1.0f),
      .epilogue = {.bias = {}, .gated = c.gated, .add_to_output = c.add, .decodable = c.decodable}};
  if (c.bias) p.epilogue.bias = TensorView(p.bias.data(), DType::kF32, {c.outputs});
  return p;
}

TEST(Matmul, CpuHasTheBitsOfTheReferenceOnEveryInstructionSet) {
  int targets = 0;
  for_each_vector_target([&](const char* target) {
    ++targets;
    for (const Case& c : kCases) {
      const Prepared p = prepare(c);
      const PackedRows weight[] = {p.weight.packed()};
      const std::vector<float> wanted = run(weight, p.x, c.rows, p.epilogue, p.y, Cell::kReference);
      for (const int threads : {1, 2, 3}) {
        expect_same_bits(run(weight, p.x, c.rows, p.epilogue, p.y, Cell::kCpu, threads), wanted,
                         fmt::format("{} {} threads={}", target, describe(c), threads));
      }
    }
  });
  RecordProperty("instruction_sets", targets);
  EXPECT_GE(targets, 1);
}

// Plain sums in double precision, from the definition of a matrix product alone.
TEST(Matmul, ReferenceIsWithinTheTolerance) {
  for (const Case& c : kCases) {
    const Prepared p = prepare(c);
    const PackedRows weight[] = {p.weight.packed()};
    std::vector<float> y(static_cast<size_t>(c.rows * c.outputs));
    const std::vector<float> got = run(weight, p.x, c.rows, {}, y, Cell::kReference);
    std::vector<float> w(static_cast<size_t>(c.outputs * c.inputs));
    c.codec->truth(p.weight.data.data(), c.outputs * c.inputs / c.codec->block_elements, w.data());
    for (int64_t m = 0; m < c.rows; ++m) {
      const std::span<const float> x_row = std::span(p.x).subspan(m * c.inputs, c.inputs);
      for (int64_t n = 0; n < c.outputs; ++n) {
        const std::span<const float> w_row = std::span(w).subspan(n * c.inputs, c.inputs);
        double exact = 0;
        for (int64_t k = 0; k < c.inputs; ++k) exact += static_cast<double>(x_row[k]) * w_row[k];
        const double tolerance = dot_tolerance({.x_norm = norm(x_row),
                                                .w_norm = norm(w_row),
                                                .length = c.inputs,
                                                .chains = kMatmulChains});
        ASSERT_LE(std::abs(got[m * c.outputs + n] - exact), tolerance) << describe(c);
      }
    }
  }
}

// The same row alone, first, last and in the middle of batches gives the same bits.
TEST(Matmul, BitsOfARowDoNotDependOnTheBatch) {
  const int64_t outputs = 72, inputs = 1568;
  const Matrix matrix = random_matrix(kBytes, outputs, inputs, 21);
  const PackedRows weight[] = {matrix.packed()};
  const std::vector<float> row = random_floats(22, inputs, 3.0f);
  const Epilogue epilogue = {.bias = {}, .gated = GatedActivation::kSilu};
  const int64_t columns = outputs / 2;
  const std::vector<float> alone = run(weight, row, 1, epilogue, std::vector<float>(columns));
  for (const int64_t rows :
       {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 23, 31, 32, 33, 48, 63, 64, 193, 260}) {
    for (const int threads : {1, 2, 3}) {
      for (const int64_t place : {int64_t{0}, rows / 2, rows - 1}) {
        std::vector<float> x = random_floats(23 + rows, rows * inputs, 5.0f);
        std::copy(row.begin(), row.end(), x.begin() + place * inputs);
        if (place > 0)
          x[0] = std::numeric_limits<float>::quiet_NaN();  // a neighbour's poison stays his own
        const std::vector<float> y =
            run(weight, x, rows, epilogue, std::vector<float>(rows * columns), Cell::kCpu, threads);
        expect_same_bits(std::span(y).subspan(place * columns, columns), alone,
                         fmt::format("row {} of {}, {} threads", place, rows, threads));
      }
    }
  }
}

TEST(Matmul, FusedPartsEqualSeparateMatmuls) {
  const int64_t inputs = 192;
  const Matrix parts[] = {random_matrix(kBytes, 45, inputs, 31),
                          random_matrix(kFloats, 7, inputs, 32),
                          random_matrix(kBytes, 20, inputs, 33)};
  const PackedRows fused[] = {parts[0].packed(), parts[1].packed(), parts[2].packed()};
  for (const int64_t rows : {1, 6, 40}) {
    const std::vector<float> x = random_floats(34, rows * inputs, 1.0f);
    const std::vector<float> y =
        run(fused, x, rows, {}, std::vector<float>(rows * 72), Cell::kCpu, 2);
    int64_t column = 0;
    for (const Matrix& part : parts) {
      const PackedRows single[] = {part.packed()};
      const std::vector<float> wanted =
          run(single, x, rows, {}, std::vector<float>(rows * part.rows));
      for (int64_t m = 0; m < rows; ++m) {
        expect_same_bits(std::span(y).subspan(m * 72 + column, part.rows),
                         std::span(wanted).subspan(m * part.rows, part.rows), "fused");
      }
      column += part.rows;
    }
  }
}

// bias, then activation, then the residual, each rounded once.
TEST(Matmul, EpilogueEqualsSeparateOperations) {
  const int64_t rows = 3, features = 21, inputs = 64;
  const Matrix matrix = random_matrix(kBytes, 2 * features, inputs, 41);
  const PackedRows weight[] = {matrix.packed()};
  const std::vector<float> x = random_floats(42, rows * inputs, 0.2f);
  std::vector<float> bias = random_floats(43, 2 * features, 1.0f);
  const std::vector<float> residual = random_floats(44, rows * features, 1.0f);
  const std::vector<float> sums = run(weight, x, rows, {}, std::vector<float>(rows * 2 * features));
  for (const GatedActivation gated : {GatedActivation::kSilu, GatedActivation::kGeluTanh}) {
    const Epilogue epilogue = {.bias = TensorView(bias.data(), DType::kF32, {2 * features}),
                               .gated = gated,
                               .add_to_output = true};
    const std::vector<float> y = run(weight, x, rows, epilogue, residual);
    for (int64_t m = 0; m < rows; ++m) {
      for (int64_t f = 0; f < features; ++f) {
        const float gate = sums[m * 2 * features + f] + bias[f];
        const float up = sums[m * 2 * features + features + f] + bias[features + f];
        const float value = (gated == GatedActivation::kSilu ? silu(gate) : gelu_tanh(gate)) * up;
        ASSERT_EQ(y[m * features + f], residual[m * features + f] + value);
      }
    }
  }
}

// Rows beyond the decodable vocabulary hold what would win or poison; neither is seen.
TEST(Matmul, UndecodableColumnsAreMinusInfinity) {
  const int64_t outputs = 90, decodable = 71, inputs = 64;
  Matrix matrix = random_matrix(kFloats, outputs, inputs, 51);
  auto* values = reinterpret_cast<float*>(matrix.data.data());
  for (int64_t i = decodable * inputs; i < outputs * inputs; ++i)
    values[i] = i % 2 == 0 ? 1e30f : NAN;
  const PackedRows weight[] = {matrix.packed()};
  for (const int64_t rows : {1, 30}) {
    const std::vector<float> x = random_floats(52, rows * inputs, 1.0f);
    const std::vector<float> y = run(weight, x, rows, {.bias = {}, .decodable = decodable},
                                     std::vector<float>(rows * outputs), Cell::kCpu, 2);
    for (int64_t i = 0; i < rows * outputs; ++i) {
      if (i % outputs < decodable) {
        ASSERT_LT(std::abs(y[i]), 64.0f);
      } else {
        ASSERT_EQ(y[i], -std::numeric_limits<float>::infinity());
      }
    }
  }
}

TEST(Matmul, RowsInRotationPairsGiveTheOutputsOfPlainRows) {
  const int64_t head = 8, rows = 3 * head, inputs = 32;
  const Matrix plain = random_matrix(kBytes, rows, inputs, 61);
  Matrix paired = plain;
  for (int64_t h = 0; h < 3; ++h) {
    for (int64_t i = 0; i < head / 2; ++i) {
      for (int64_t p = 0; p < 2; ++p) {
        std::memcpy(paired.data.data() + (h * head + 2 * i + p) * inputs,
                    plain.data.data() + (h * head + p * head / 2 + i) * inputs, inputs);
      }
    }
  }
  PackedRows stored = paired.packed();
  stored.rope_head_size = head;
  const PackedRows wanted[] = {plain.packed()};
  const PackedRows got[] = {stored};
  const std::vector<float> x = random_floats(62, inputs, 1.0f);
  expect_same_bits(run(got, x, 1, {}, std::vector<float>(rows)),
                   run(wanted, x, 1, {}, std::vector<float>(rows)), "pairs");
}

TEST(Matmul, StridedRowsAreReadAndWrittenInPlace) {
  const int64_t rows = 7, outputs = 20, inputs = 40;
  const Matrix matrix = random_matrix(kFloats, outputs, inputs, 71);
  const PackedRows weight[] = {matrix.packed()};
  std::vector<float> x = random_floats(72, rows * 64, 1.0f);
  std::vector<float> y(static_cast<size_t>(rows * 50), 5.0f);
  std::vector<float> packed_x;  // what lies between the rows is not read
  for (int64_t i = 0; i < rows * 64; ++i) {
    if (i % 64 >= inputs) x[i] = std::numeric_limits<float>::quiet_NaN();
  }
  for (int64_t m = 0; m < rows; ++m)
    packed_x.insert(packed_x.end(), x.begin() + m * 64, x.begin() + m * 64 + inputs);
  const std::unique_ptr<Device> device = new_cpu_device(2);
  const std::unique_ptr<Stream> stream = device->new_stream();
  const int64_t bytes = matmul_scratch_bytes(rows, 2);
  const Buffer scratch = device->allocate(static_cast<size_t>(bytes)).value();
  matmul(*stream, {.x = TensorView(x.data(), DType::kF32, {rows, inputs}, 64),
                   .weight = weight,
                   .y = TensorView(y.data(), DType::kF32, {rows, outputs}, 50),
                   .epilogue = {},
                   .scratch = scratch.view(DType::kU8, {bytes})});
  const std::vector<float> wanted =
      run(weight, packed_x, rows, {}, std::vector<float>(rows * outputs));
  for (int64_t m = 0; m < rows; ++m) {
    expect_same_bits(std::span(y).subspan(m * 50, outputs),
                     std::span(wanted).subspan(m * outputs, outputs), "y");
    for (int64_t n = outputs; n < 50; ++n) ASSERT_EQ(y[m * 50 + n], 5.0f);
  }
}

TEST(Matmul, CostCountsPackedBytesOnce) {
  const Matrix matrix = random_matrix(kBytes, 10, 64, 81);
  const PackedRows weight[] = {matrix.packed()};
  std::vector<float> x(3 * 64), y(3 * 10);
  MatmulArgs args = {
      .x = view(x, 3, 64), .weight = weight, .y = view(y, 3, 10), .epilogue = {}, .scratch = {}};
  EXPECT_EQ(matmul.cost(args).flops, 2 * 3 * 10 * 64);
  EXPECT_EQ(matmul.cost(args).bytes, 10 * 64 + (3 * 64 + 3 * 10) * 4);
  args.epilogue.decodable = 4;
  EXPECT_EQ(matmul.cost(args).flops, 2 * 3 * 4 * 64);
  EXPECT_EQ(matmul.cost(args).bytes, 4 * 64 + (3 * 64 + 3 * 10) * 4);
}

TEST(MatmulDeathTest, ContractNamesWhatIsWrong) {
  const Matrix matrix = random_matrix(kBytes, 10, 64, 91);
  const PackedRows weight[] = {matrix.packed()};
  const std::vector<float> y(10);
  EXPECT_DEATH(run(weight, std::vector<float>(32), 1, {}, y), "rows of the weight as long as x");
  EXPECT_DEATH(run(weight, std::vector<float>(64), 1, {}, std::vector<float>(9)),
               "y has shape \\[1 9\\]");
  EXPECT_DEATH(run(weight, std::vector<float>(64), 1, {.bias = {}, .decodable = 11}, y),
               "decodable within");
}

}  // namespace
}  // namespace ashlar
