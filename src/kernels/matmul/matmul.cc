// matmul's contract, cost and reference. The reference is the definition in matmul.h written out
// one output at a time; the CPU cell must give its bits, which is what the test compares.
#include "kernels/matmul/matmul.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/matmul/matmul_cpu.h"

namespace ashlar {

namespace {

void matmul_contract(const MatmulArgs& args, const ShapeCheck& check) {
  const Epilogue& epilogue = args.epilogue;
  const bool gated = epilogue.gated != GatedActivation::kNone;
  const int64_t outputs = row_count(args.weight);
  check.require(args.x.shape().rank() == 2, "x of rank 2");
  check.dtype(args.x, DType::kF32, "x");
  check.dtype(args.y, DType::kF32, "y");
  check.require(!gated || outputs % 2 == 0, "an even number of outputs when gated");
  check.shape(args.y, {args.x.dim(0), gated ? outputs / 2 : outputs}, "y");
  for (const PackedRows& part : args.weight) {
    check.require(args.x.dim(1) % part.codec->block_elements == 0, "whole blocks in a row");
    check.require(
        part.row_bytes == args.x.dim(1) / part.codec->block_elements * part.codec->block_bytes,
        "rows of the weight as long as x");
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

OpCost matmul_cost(const MatmulArgs& args) {
  const int64_t rows = args.x.dim(0);
  const int64_t inputs = args.x.dim(1);
  int64_t left = args.epilogue.decodable > 0 ? args.epilogue.decodable : row_count(args.weight);
  OpCost cost;
  cost.flops = 2 * rows * left * inputs;
  for (const PackedRows& part : args.weight) {
    const int64_t read = std::min(left, part.rows);
    cost.bytes += read * part.row_bytes;
    left -= read;
  }
  const int64_t stored = args.y.shape().count() * (args.epilogue.add_to_output ? 2 : 1);
  const int64_t bias = args.epilogue.bias.empty() ? 0 : args.epilogue.bias.dim(0);
  cost.bytes += (args.x.shape().count() + stored + bias) * 4;
  return cost;
}

float dot(const float* x, const float* w, int64_t inputs) {
  float chains[kMatmulChains] = {};
  for (int64_t begin = 0; begin < inputs; begin += kMatmulChains) {
    for (int64_t i = 0; i < kMatmulChains; ++i) {
      const bool inside = begin + i < inputs;
      chains[i] = std::fma(inside ? x[begin + i] : 0.0f, inside ? w[begin + i] : 0.0f, chains[i]);
    }
  }
  for (int left = kMatmulChains / 2; left > 0; left /= 2) {
    for (int i = 0; i < left; ++i) chains[i] = chains[2 * i] + chains[2 * i + 1];
  }
  return chains[0];
}

// sums[m n] with the bias, for the computed columns.
std::vector<float> reference_sums(const MatmulArgs& args, int64_t computed) {
  const int64_t rows = args.x.dim(0);
  const int64_t inputs = args.x.dim(1);
  std::vector<float> sums(static_cast<size_t>(rows * computed));
  std::vector<float> weight(static_cast<size_t>(inputs));
  for (int64_t n = 0; n < computed; ++n) {
    const PackedRow row = find_row(args.weight, n);
    row.codec->truth(row.data, inputs / row.codec->block_elements, weight.data());
    for (int64_t m = 0; m < rows; ++m) {
      float sum = dot(args.x.row<float>(m), weight.data(), inputs);
      if (!args.epilogue.bias.empty()) sum += args.epilogue.bias.as<float>()[n];
      sums[m * computed + n] = sum;
    }
  }
  return sums;
}

void matmul_reference(Stream&, const MatmulArgs& args) {
  const Epilogue& epilogue = args.epilogue;
  const int64_t outputs = row_count(args.weight);
  const int64_t computed = epilogue.decodable > 0 ? epilogue.decodable : outputs;
  const std::vector<float> sums = reference_sums(args, computed);
  const int64_t columns = args.y.dim(1);
  for (int64_t m = 0; m < args.x.dim(0); ++m) {
    const float* row = sums.data() + m * computed;
    float* y = args.y.row<float>(m);
    for (int64_t n = 0; n < columns; ++n) {
      float value = -std::numeric_limits<float>::infinity();
      if (epilogue.gated != GatedActivation::kNone) {
        value = apply_gate(epilogue.gated, row[n], row[n + columns]);
      } else if (n < computed) {
        value = row[n];
      }
      y[n] = epilogue.add_to_output ? y[n] + value : value;
    }
  }
}

}  // namespace

constinit const Op<MatmulArgs> matmul = {
    "matmul", matmul_contract, matmul_cost, matmul_reference, {matmul_cpu}};

}  // namespace ashlar
