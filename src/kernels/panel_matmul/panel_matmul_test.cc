// panel_matmul and panels: packing keeps every code and scale, the reference stays within the
// tolerance of its two planes of double precision, each instruction set has the reference's bits,
// rows do not depend on their company, and fusing changes nothing. Real formats are swept in
// formats/.
#include "kernels/panel_matmul/panel_matmul.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "kernels/panel_gather/panel_gather.h"
#include "kernels/panel_matmul/panel_paths.h"
#include "testing/random.h"

namespace ashlar {
namespace {

constexpr PanelLayout kLayouts[] = {{4, PanelScales::kPlain, 8},   {4, PanelScales::kMin},
                                    {5, PanelScales::kPlain, 16},  {5, PanelScales::kMin},
                                    {8, PanelScales::kPlain, 128}, {4, PanelScales::kNestedMin},
                                    {5, PanelScales::kNestedMin},  {6, PanelScales::kNested, 32}};

std::string label(const PanelLayout& layout) {
  return fmt::format("{} bits, scales {}", layout.bits, static_cast<int>(layout.scales));
}

// A random matrix in panels and what it means, [rows inputs].
struct Matrix {
  PanelMatrix panels;
  std::unique_ptr<std::byte, decltype(&std::free)> data{nullptr, &std::free};
  std::vector<double> truth;
};

uint16_t small_half(uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  // +-(1/16 .. 1/8)
  return static_cast<uint16_t>((state >> 33 & 0x8000) | 0x2c00 | (state >> 40 & 0x3ff));
}

double half_value(uint16_t bits) { return to_float(F16{bits}); }

Matrix random_matrix(const PanelLayout& layout, int64_t rows, int64_t inputs, uint64_t seed) {
  Matrix matrix;
  matrix.panels = {.layout = layout, .rows = rows, .inputs = inputs};
  const int64_t panels = matrix.panels.panels();
  const int64_t panel_bytes = layout.panel_bytes(inputs);
  EXPECT_EQ(panel_bytes % 64, 0);
  matrix.data.reset(
      static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(panels * panel_bytes))));
  matrix.panels.data = matrix.data.get();
  matrix.truth.resize(static_cast<size_t>(rows * inputs));
  const std::vector<std::byte> random = random_bytes(seed, rows * inputs * 2);
  uint64_t state = seed;
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t count = std::min(kPanelRows, rows - p * kPanelRows);
    std::vector<std::vector<uint8_t>> codes(16);
    std::vector<std::vector<uint16_t>> factors(16), factors2(16);
    std::vector<std::vector<int8_t>> scales(16);
    std::vector<std::vector<uint8_t>> scales2(16);
    std::vector<PanelRow> taken;
    for (int64_t o = 0; o < count; ++o) {
      const int64_t row = p * kPanelRows + o;
      const int64_t span = layout.nested() ? kNestedInputs : kCellInputs;
      for (int64_t i = 0; i < inputs; ++i) {
        codes[o].push_back(static_cast<uint8_t>(random[row * inputs + i]) &
                           ((1 << layout.bits) - 1));
      }
      for (int64_t i = 0; i < inputs / span; ++i) {
        factors[o].push_back(small_half(state));
        factors2[o].push_back(small_half(state));
      }
      const bool by_16 = layout.scales == PanelScales::kNested;
      for (int64_t i = 0; i < inputs / (by_16 ? 16 : 32); ++i) {
        const auto byte = static_cast<uint8_t>(random[rows * inputs + row * inputs / 16 + i]);
        scales[o].push_back(static_cast<int8_t>(by_16 ? byte : byte & 63));
        scales2[o].push_back(byte >> 2);
      }
      for (int64_t i = 0; i < inputs; ++i) {
        const double code = codes[o][i];
        double value = 0;
        switch (layout.scales) {
          case PanelScales::kPlain:
            value = half_value(factors[o][i / 32]) * (code - layout.zero);
            break;
          case PanelScales::kMin:
            value = half_value(factors[o][i / 32]) * code + half_value(factors2[o][i / 32]);
            break;
          case PanelScales::kNested:
            value = half_value(factors[o][i / 256]) * scales[o][i / 16] * (code - layout.zero);
            break;
          case PanelScales::kNestedMin:
            value = half_value(factors[o][i / 256]) * scales[o][i / 32] * code -
                    half_value(factors2[o][i / 256]) * scales2[o][i / 32];
            break;
        }
        matrix.truth[row * inputs + i] = value;
      }
      taken.push_back({codes[o].data(), factors[o].data(), factors2[o].data(), scales[o].data(),
                       scales2[o].data()});
    }
    pack_panel(layout, taken, inputs, matrix.data.get() + p * panel_bytes);
  }
  return matrix;
}

TensorView view(std::vector<float>& values, int64_t rows) {
  return {values.data(), DType::kF32, {rows, static_cast<int64_t>(values.size()) / rows}};
}

enum class Cell { kReference, kCpu };

// y of one call; y starts as `y`. x is [rows K].
std::vector<float> run(std::span<const PanelMatrix> weight, std::vector<float> x, int64_t rows,
                       const Epilogue& epilogue, std::vector<float> y, Cell cell = Cell::kCpu,
                       int threads = 1) {
  const std::unique_ptr<Device> device = new_cpu_device(threads);
  const std::unique_ptr<Stream> stream = device->new_stream();
  const int64_t bytes = panel_matmul_scratch_bytes(rows, static_cast<int64_t>(x.size()) / rows);
  const Buffer scratch = device->allocate(static_cast<size_t>(bytes)).value();
  const PanelMatmulArgs args = {.x = view(x, rows),
                                .weight = weight,
                                .y = view(y, rows),
                                .epilogue = epilogue,
                                .scratch = scratch.view(DType::kU8, {bytes})};
  if (cell == Cell::kReference) {
    panel_matmul.reference(*stream, args);
  } else {
    panel_matmul(*stream, args);
  }
  return y;
}

std::vector<float> zeros(int64_t count) { return std::vector<float>(static_cast<size_t>(count)); }

void expect_same_bits(std::span<const float> got, std::span<const float> wanted,
                      const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(wanted[i]))
        << what << " at " << i << ": " << got[i] << " and " << wanted[i];
  }
}

template <class Function>
void for_each_path(Function function) {
  for (const PanelPath* path : panel_paths()) {
    if (!path->usable()) continue;
    force_panel_path(path);
    function(path->name);
  }
  force_panel_path(nullptr);
}

TEST(Panels, DecodeToWhatWasPacked) {
  for (const PanelLayout& layout : kLayouts) {
    const int64_t rows = 21;
    const int64_t inputs = 512;
    const Matrix matrix = random_matrix(layout, rows, inputs, 7);
    std::vector<float> row(inputs);
    for (int64_t r = 0; r < rows; ++r) {
      decode_panel_row(matrix.panels, r, row.data());
      for (int64_t k = 0; k < inputs; ++k) {
        ASSERT_EQ(row[k], static_cast<float>(matrix.truth[r * inputs + k]))
            << label(layout) << " row " << r << " k " << k;
      }
    }
  }
}

TEST(PanelMatmul, StaysWithinTheToleranceOfTwoPlanes) {
  for (const PanelLayout& layout : kLayouts) {
    const int64_t rows = 3, outputs = 40, inputs = 768;
    const Matrix matrix = random_matrix(layout, outputs, inputs, 11);
    const std::vector<float> x = random_floats(12, rows * inputs, 3.0f);
    const std::vector<float> y =
        run({&matrix.panels, 1}, x, rows, {}, zeros(rows * outputs), Cell::kReference);
    for (int64_t m = 0; m < rows; ++m) {
      float largest = 0;
      for (int64_t k = 0; k < inputs; ++k) largest = std::max(largest, std::abs(x[m * inputs + k]));
      for (int64_t n = 0; n < outputs; ++n) {
        double sum = 0, squares = 0, magnitude = 0;
        for (int64_t k = 0; k < inputs; ++k) {
          const double w = matrix.truth[n * inputs + k];
          sum += w * x[m * inputs + k];
          squares += w * w;
          magnitude += std::abs(w * x[m * inputs + k]);
        }
        // Rounding to steps of largest / 32512 is noise with a deviation of 0.29 steps; six
        // deviations. Beside it the f32 sum, whose terms are larger than the products where an
        // offset cancels.
        const double noise = 6 * 0.29 * largest / 32512 * std::sqrt(squares);
        EXPECT_NEAR(y[m * outputs + n], sum, noise + 3e-6 * magnitude) << label(layout);
      }
    }
  }
}

TEST(PanelMatmul, EveryInstructionSetHasTheBitsOfTheReference) {
  for_each_path([](const char* path) {
    for (const PanelLayout& layout : kLayouts) {
      const int64_t outputs = 50, inputs = 768;
      const Matrix matrix = random_matrix(layout, outputs, inputs, 21);
      const std::vector<float> x = random_floats(22, 64 * inputs, 1.0f);
      const std::vector<float> wanted =
          run({&matrix.panels, 1}, x, 64, {}, zeros(64 * outputs), Cell::kReference);
      for (const int64_t rows : {1, 2, 3, 7, 8, 15, 16, 17, 37, 64}) {
        const std::vector<float> first(x.begin(), x.begin() + rows * inputs);
        expect_same_bits(run({&matrix.panels, 1}, first, rows, {}, zeros(rows * outputs)),
                         std::span(wanted).first(static_cast<size_t>(rows * outputs)),
                         fmt::format("{} {} rows {}", path, label(layout), rows));
      }
    }
  });
}

TEST(PanelMatmul, ExtremeInputsHaveTheBitsOfTheReference) {
  const int64_t outputs = 16, inputs = 256;
  for_each_path([&](const char* path) {
    for (const PanelLayout& layout : kLayouts) {
      const Matrix matrix = random_matrix(layout, outputs, inputs, 31);
      std::vector<float> x = random_floats(32, 6 * inputs, 1.0f);
      for (int64_t k = 0; k < inputs; ++k) {
        x[k] *= 0x1p-110f;                                       // below the smallest block
        x[inputs + k] *= 0x1p100f;                               // large
        x[2 * inputs + k] = k % 3 == 0 ? 1.0f : -1.0f;           // all of the largest magnitude
        x[3 * inputs + k] = k == 5 ? 1e30f : x[3 * inputs + k];  // one outlier
        x[4 * inputs + k] = 0.0f;
      }
      expect_same_bits(run({&matrix.panels, 1}, x, 6, {}, zeros(6 * outputs)),
                       run({&matrix.panels, 1}, x, 6, {}, zeros(6 * outputs), Cell::kReference),
                       fmt::format("{} {}", path, label(layout)));
    }
  });
}

TEST(PanelMatmul, NotANumberAndInfinityStayInTheirRow) {
  const Matrix matrix = random_matrix(kLayouts[1], 16, 64, 41);
  for_each_path([&](const char* path) {
    std::vector<float> x = random_floats(42, 3 * 64, 1.0f);
    const std::vector<float> clean = run({&matrix.panels, 1}, x, 3, {}, zeros(3 * 16));
    x[3] = std::numeric_limits<float>::quiet_NaN();
    x[64 + 40] = -std::numeric_limits<float>::infinity();
    const std::vector<float> y = run({&matrix.panels, 1}, x, 3, {}, zeros(3 * 16));
    for (int n = 0; n < 32; ++n) EXPECT_TRUE(std::isnan(y[n])) << path;
    expect_same_bits(std::span(y).subspan(32), std::span(clean).subspan(32), path);
  });
}

TEST(PanelMatmul, ARowHasTheSameBitsAloneFirstLastAndPadded) {
  const int64_t outputs = 40, inputs = 256;
  for_each_path([&](const char* path) {
    for (const PanelLayout& layout : kLayouts) {
      const Matrix matrix = random_matrix(layout, outputs, inputs, 51);
      const std::vector<float> row = random_floats(52, inputs, 1.0f);
      const std::vector<float> alone = run({&matrix.panels, 1}, row, 1, {}, zeros(outputs));
      for (int64_t rows = 2; rows <= 64; ++rows) {
        for (const int64_t place : {int64_t{0}, rows / 2, rows - 1}) {
          // Padding is what lies around: sometimes zeros, sometimes other rows, much larger.
          std::vector<float> x = place % 2 == 0 ? zeros(rows * inputs)
                                                : random_floats(53 + rows, rows * inputs, 100.0f);
          std::copy(row.begin(), row.end(), x.begin() + place * inputs);
          const std::vector<float> y = run({&matrix.panels, 1}, x, rows, {}, zeros(rows * outputs));
          expect_same_bits(std::span(y).subspan(place * outputs, outputs), alone,
                           fmt::format("{} {} {} of {}", path, label(layout), place, rows));
        }
      }
    }
  });
}

TEST(PanelMatmul, ThreadsDoNotChangeBits) {
  const Matrix matrix = random_matrix(kLayouts[5], 200, 256, 61);
  const std::vector<float> x = random_floats(62, 20 * 256, 1.0f);
  const std::vector<float> one = run({&matrix.panels, 1}, x, 20, {}, zeros(20 * 200));
  for (const int threads : {2, 3, 5}) {
    expect_same_bits(run({&matrix.panels, 1}, x, 20, {}, zeros(20 * 200), Cell::kCpu, threads), one,
                     fmt::format("{} threads", threads));
  }
}

TEST(PanelMatmul, EpiloguesHaveTheBitsOfTheReference) {
  const int64_t rows = 19, inputs = 256;
  const Matrix gates = random_matrix(kLayouts[0], 40, inputs, 71);
  const Matrix ups = random_matrix(kLayouts[7], 40, inputs, 72);
  const PanelMatrix fused[] = {gates.panels, ups.panels};
  std::vector<float> x = random_floats(73, rows * inputs, 0.05f);
  std::vector<float> bias_values = random_floats(74, 80, 1.0f);
  const TensorView bias(bias_values.data(), DType::kF32, {80});
  const Epilogue epilogues[] = {
      {},
      {.bias = bias},
      {.bias = bias, .add_to_output = true},
      {.bias = bias, .gated = GatedActivation::kSilu},
      {.bias = {}, .gated = GatedActivation::kGeluTanh},
      {.bias = {}, .gated = GatedActivation::kSilu, .add_to_output = true},
      {.bias = bias, .decodable = 55},
      {.bias = {}, .decodable = 33}};
  for (size_t i = 0; i < std::size(epilogues); ++i) {
    const int64_t columns = epilogues[i].gated == GatedActivation::kNone ? 80 : 40;
    const std::vector<float> y = random_floats(75, rows * columns, 1.0f);
    expect_same_bits(run(fused, x, rows, epilogues[i], y, Cell::kCpu, 3),
                     run(fused, x, rows, epilogues[i], y, Cell::kReference),
                     fmt::format("epilogue {}", i));
  }
}

TEST(PanelMatmul, FusedPartsHaveTheBitsOfSingleOnes) {
  const int64_t inputs = 512;
  const Matrix a = random_matrix(kLayouts[5], 33, inputs, 81);
  const Matrix b = random_matrix(kLayouts[7], 16, inputs, 82);
  const Matrix c = random_matrix(kLayouts[4], 5, inputs, 83);
  const PanelMatrix fused[] = {a.panels, b.panels, c.panels};
  const std::vector<float> x = random_floats(84, 3 * inputs, 1.0f);
  const std::vector<float> y = run(fused, x, 3, {}, zeros(3 * 54), Cell::kCpu, 2);
  int64_t column = 0;
  for (const Matrix* part : {&a, &b, &c}) {
    const int64_t outputs = part->panels.rows;
    const std::vector<float> single = run({&part->panels, 1}, x, 3, {}, zeros(3 * outputs));
    for (int64_t m = 0; m < 3; ++m) {
      expect_same_bits(std::span(y).subspan(m * 54 + column, outputs),
                       std::span(single).subspan(m * outputs, outputs), "part");
    }
    column += outputs;
  }
}

TEST(PanelGather, GivesScaledRows) {
  const Matrix a = random_matrix(kLayouts[4], 20, 64, 91);
  const Matrix b = random_matrix(kLayouts[1], 7, 64, 92);
  const PanelMatrix parts[] = {a.panels, b.panels};
  const std::unique_ptr<Device> device = new_cpu_device(2);
  const std::unique_ptr<Stream> stream = device->new_stream();
  std::vector<int32_t> ids = {26, 0, 19, 20, 26, 5, 6, 7, 8, 9, 10};
  std::vector<float> y(ids.size() * 64);
  const auto count = static_cast<int64_t>(ids.size());
  panel_gather(*stream, {.weight = parts,
                         .ids = TensorView(ids.data(), DType::kI32, {count}),
                         .y = view(y, count),
                         .scale = 3.0f});
  for (int64_t t = 0; t < count; ++t) {
    const bool first = ids[t] < 20;
    const std::vector<double>& truth = first ? a.truth : b.truth;
    for (int64_t k = 0; k < 64; ++k) {
      const auto value = static_cast<float>(truth[(first ? ids[t] : ids[t] - 20) * 64 + k]);
      ASSERT_EQ(y[t * 64 + k], value * 3.0f);
    }
  }
}

}  // namespace
}  // namespace ashlar
