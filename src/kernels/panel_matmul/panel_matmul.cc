// panel_matmul's contract, cost and reference: the definition in panel_matmul.h, written out.
#include "kernels/panel_matmul/panel_matmul.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/panel_matmul/panel_paths.h"

namespace ashlar {

void panel_matmul_cpu(Stream& stream, const PanelMatmulArgs& args);

namespace {

// Whether panel i of the gates and panel i of the ups hold the same outputs for every i, which is
// how the CPU cell pairs them.
bool halves_alike(std::span<const PanelMatrix> parts) {
  if (parts.size() == 1) return parts.front().rows % (2 * kPanelRows) == 0;
  const size_t half = parts.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    if (parts[i].rows != parts[half + i].rows) return false;
  }
  return parts.size() % 2 == 0;
}

void panel_matmul_contract(const PanelMatmulArgs& args, const ShapeCheck& check) {
  const Epilogue& epilogue = args.epilogue;
  const bool gated = epilogue.gated != GatedActivation::kNone;
  const int64_t outputs = row_count(args.weight);
  check.require(args.x.shape().rank() == 2, "x of rank 2");
  check.dtype(args.x, DType::kF32, "x");
  check.dtype(args.y, DType::kF32, "y");
  check.require(!gated || halves_alike(args.weight), "gates and ups cut into panels alike");
  check.shape(args.y, {args.x.dim(0), gated ? outputs / 2 : outputs}, "y");
  for (const PanelMatrix& part : args.weight) {
    check.require(part.inputs == args.x.dim(1), "rows of the weight as long as x");
    check.require(part.inputs % (part.layout.nested() ? kNestedInputs : kCellInputs) == 0,
                  "whole blocks in a row");
  }
  if (!epilogue.bias.empty()) {
    check.shape(epilogue.bias, {outputs}, "bias");
    check.dtype(epilogue.bias, DType::kF32, "bias");
  }
  check.require(epilogue.decodable >= 0 && epilogue.decodable <= outputs,
                "decodable within the outputs");
  check.require(epilogue.decodable == 0 || (!gated && !epilogue.add_to_output),
                "decodable without a gate and without a residual");
}

OpCost panel_matmul_cost(const PanelMatmulArgs& args) {
  const int64_t rows = args.x.dim(0);
  int64_t left = args.epilogue.decodable > 0 ? args.epilogue.decodable : row_count(args.weight);
  OpCost cost;
  cost.flops = 2 * rows * left * args.x.dim(1);
  for (const PanelMatrix& part : args.weight) {
    const int64_t read = std::min(left, part.rows);
    cost.bytes += divide_up(read, kPanelRows) * part.layout.panel_bytes(part.inputs);
    left -= read;
  }
  const int64_t stored = args.y.shape().count() * (args.epilogue.add_to_output ? 2 : 1);
  const int64_t bias = args.epilogue.bias.empty() ? 0 : args.epilogue.bias.dim(0);
  cost.bytes += (args.x.shape().count() + stored + bias) * 4;
  return cost;
}

// A row of x in integers.
struct Quantized {
  std::vector<int32_t> q;    // [K]
  std::vector<float> scale;  // [K/32]
};

Quantized quantize(const float* x, int64_t inputs) {
  Quantized out;
  for (int64_t k = 0; k < inputs; k += kCellInputs) {
    int32_t largest = 0;
    for (int64_t i = k; i < k + kCellInputs; ++i) {
      largest =
          std::max(largest, static_cast<int32_t>(std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu));
    }
    const BlockScale block = block_scale(largest);
    out.scale.push_back(block.scale);
    for (int64_t i = k; i < k + kCellInputs; ++i) {
      out.q.push_back(
          block.inverse == 0.0f ? 0 : static_cast<int32_t>(std::nearbyintf(x[i] * block.inverse)));
    }
  }
  return out;
}

float dot(const Quantized& x, const PanelMatrix& part, int64_t row) {
  PanelCell cell;
  float sum = 0.0f;
  const int64_t o = row % kPanelRows;
  const int64_t span = part.layout.scales == PanelScales::kNested ? 16 : 32;  // k a scale covers
  for (int64_t c = 0; c < part.inputs / kCellInputs; ++c) {
    decode_cell(part.layout, part.panel(row / kPanelRows), part.inputs, c, cell);
    const float s = x.scale[c];
    for (int64_t begin = 0; begin < kCellInputs; begin += span) {
      int32_t product = 0;
      int32_t total = 0;
      for (int64_t e = begin; e < begin + span; ++e) {
        const int32_t q = x.q[c * kCellInputs + e];
        product += q * cell.codes[e / 4][4 * o + e % 4];
        total += q;
      }
      const int64_t half = begin / 16;
      sum = std::fma(static_cast<float>(product) * s, cell.scale[half][o], sum);
      sum = std::fma(static_cast<float>(total) * s, cell.offset[half][o], sum);
    }
  }
  return sum;
}

void panel_matmul_reference(Stream&, const PanelMatmulArgs& args) {
  const Epilogue& epilogue = args.epilogue;
  const bool gated = epilogue.gated != GatedActivation::kNone;
  const int64_t outputs = row_count(args.weight);
  const int64_t computed = epilogue.decodable > 0 ? epilogue.decodable : outputs;
  const int64_t columns = args.y.dim(1);
  std::vector<float> sums(static_cast<size_t>(outputs));
  for (int64_t m = 0; m < args.x.dim(0); ++m) {
    const Quantized x = quantize(args.x.row<float>(m), args.x.dim(1));
    int64_t n = 0;
    for (const PanelMatrix& part : args.weight) {
      for (int64_t row = 0; row < part.rows && n < computed; ++row, ++n) {
        sums[n] = dot(x, part, row);
        if (!epilogue.bias.empty()) sums[n] += epilogue.bias.as<float>()[n];
      }
    }
    float* y = args.y.row<float>(m);
    for (n = 0; n < columns; ++n) {
      float value = n < computed ? sums[n] : -std::numeric_limits<float>::infinity();
      if (gated) value = apply_gate(epilogue.gated, sums[n], sums[n + columns]);
      y[n] = epilogue.add_to_output ? y[n] + value : value;
    }
  }
}

}  // namespace

constinit const Op<PanelMatmulArgs> panel_matmul = {"panel_matmul",
                                                    panel_matmul_contract,
                                                    panel_matmul_cost,
                                                    panel_matmul_reference,
                                                    {panel_matmul_cpu}};

}  // namespace ashlar
