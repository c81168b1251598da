// Contracts, costs and references of tile_matmul, tile_pack and tile_clear. The reference of the
// matmul makes the segments as chains of f32 additions, one input at a time.
#include "kernels/tile_matmul/tile_matmul.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/tile_matmul/tile_cells.h"
#include "kernels/tile_matmul/tile_choice.h"

namespace ashlar {

namespace {

// Where input k of output n lies in the layout, in bytes.
int64_t place(const TileShape& shape, int64_t n, int64_t k) {
  const int64_t row = shape.row_of(n);
  const int64_t segments = segment_count(shape);
  const int64_t block = row / kTileOutputs * tile_blocks(shape.blocks(), segments) +
                        block_place(shape.blocks(), segments, k / kBlockInputs);
  const int64_t r = row % kTileOutputs;
  const int64_t chunk = (k % kBlockInputs / 8) ^ (r % 8);
  return block * kBlockBytes + r * 128 + chunk * 16 + k % 8 * 2;
}

void weight_contract(const TileWeight& weight, const ShapeCheck& check) {
  check.dtype(weight.data, DType::kU8, "weight");
  check.shape(weight.data, {weight.shape.bf16_bytes()}, "weight");
  check.require(weight.shape.inputs % 8 == 0, "a multiple of 8 inputs");
  check.require(!weight.shape.gated || weight.shape.outputs % (2 * kGateRun) == 0,
                "whole runs of gates and ups");
}

void matmul_contract(const TileMatmulArgs& args, const ShapeCheck& check) {
  const Epilogue& epilogue = args.epilogue;
  const TileShape& shape = args.weight.shape;
  const bool gated = epilogue.gated != GatedActivation::kNone;
  weight_contract(args.weight, check);
  check.require(args.x.shape().rank() == 2, "x of rank 2");
  check.shape(args.x, {args.x.dim(0), shape.inputs}, "x");
  check.dtype(args.x, DType::kBF16, "x");
  check.require(gated == shape.gated, "a gated epilogue for a gated weight, and only there");
  check.shape(args.y, {args.x.dim(0), gated ? shape.outputs / 2 : shape.outputs}, "y");
  const bool in_f32 = epilogue.add_to_output || epilogue.decodable > 0;
  check.require(args.y.dtype() == DType::kF32 || (args.y.dtype() == DType::kBF16 && !in_f32),
                "y of bf16, or f32 where it is added to or masked");
  check.require(!gated || args.y.dtype() == DType::kBF16, "y of bf16 when gated");
  check.require(args.y.dtype() == DType::kF32 || args.y.row_stride() % 8 == 0,
                "rows of a bf16 y at multiples of 16 bytes");
  check.require(tile_matmul_scratch_bytes(shape, args.x.dim(0)) <=
                    (args.scratch.empty() ? 0 : args.scratch.dim(0)),
                "scratch of tile_matmul_scratch_bytes");
  if (!epilogue.bias.empty()) {
    check.shape(epilogue.bias, {shape.outputs}, "bias");
    check.dtype(epilogue.bias, DType::kF32, "bias");
  }
  check.require(epilogue.decodable >= 0 && epilogue.decodable <= shape.outputs,
                "decodable within the outputs");
  check.require(!gated || (!epilogue.add_to_output && epilogue.decodable == 0),
                "a gate without a residual and without decodable");
  check.require(epilogue.decodable == 0 || !epilogue.add_to_output, "decodable without a residual");
}

OpCost matmul_cost(const TileMatmulArgs& args) {
  const TileShape& shape = args.weight.shape;
  const int64_t computed = args.epilogue.decodable > 0 ? args.epilogue.decodable : shape.outputs;
  const int64_t stored = args.y.shape().count() * static_cast<int64_t>(dtype_bytes(args.y.dtype()));
  return {computed * shape.inputs * 2 + args.x.shape().count() * 2 +
              stored * (args.epilogue.add_to_output ? 2 : 1),
          2 * args.x.dim(0) * computed * shape.inputs};
}

float weight_value(const TileWeight& weight, int64_t n, int64_t k) {
  BF16 value;
  std::memcpy(&value, weight.data.as<uint8_t>() + place(weight.shape, n, k), 2);
  return to_float(value);
}

float reference_sum(const TileMatmulArgs& args, int64_t m, int64_t n) {
  const TileShape& shape = args.weight.shape;
  const BF16* x = args.x.row<BF16>(m);
  const int64_t segments = segment_count(shape);
  float sum = 0.0f;
  for (int64_t s = 0; s < segments; ++s) {
    const int64_t begin = segment_begin(shape.blocks(), segments, s) * kBlockInputs;
    const int64_t end = segment_begin(shape.blocks(), segments, s + 1) * kBlockInputs;
    float chain = 0.0f;
    for (int64_t k = begin; k < std::min(end, shape.inputs); ++k) {
      chain = std::fma(to_float(x[k]), weight_value(args.weight, n, k), chain);
    }
    sum = s == 0 ? chain : sum + chain;
  }
  return args.epilogue.bias.empty() ? sum : sum + args.epilogue.bias.as<float>()[n];
}

void store(TensorView y, int64_t m, int64_t n, float value) {
  if (y.dtype() == DType::kF32) {
    y.row<float>(m)[n] = value;
  } else {
    y.row<BF16>(m)[n] = to_bf16(value);
  }
}

void matmul_reference(Stream&, const TileMatmulArgs& args) {
  const Epilogue& epilogue = args.epilogue;
  const int64_t columns = args.y.dim(1);
  for (int64_t m = 0; m < args.x.dim(0); ++m) {
    for (int64_t n = 0; n < columns; ++n) {
      if (epilogue.decodable > 0 && n >= epilogue.decodable) {
        store(args.y, m, n, -std::numeric_limits<float>::infinity());
      } else if (epilogue.gated != GatedActivation::kNone) {
        const float gate = reference_sum(args, m, n);
        store(args.y, m, n, apply_gate(epilogue.gated, gate, reference_sum(args, m, columns + n)));
      } else {
        const float sum = reference_sum(args, m, n);
        store(args.y, m, n, epilogue.add_to_output ? args.y.row<float>(m)[n] + sum : sum);
      }
    }
  }
}

void pack_contract(const TilePackArgs& args, const ShapeCheck& check) {
  weight_contract(args.weight, check);
  check.require(args.rows.dtype() == DType::kF32 || args.rows.dtype() == DType::kBF16,
                "rows of f32 or bf16");
  check.shape(args.rows, {args.rows.dim(0), args.weight.shape.inputs}, "rows");
  check.require(args.first >= 0 && args.first + args.rows.dim(0) <= args.weight.shape.outputs,
                "rows within the outputs");
}

OpCost pack_cost(const TilePackArgs& args) {
  const int64_t count = args.rows.shape().count();
  return {count * (2 + static_cast<int64_t>(dtype_bytes(args.rows.dtype()))), 0};
}

void pack_reference(Stream&, const TilePackArgs& args) {
  const int64_t inputs = args.weight.shape.inputs;
  for (int64_t i = 0; i < args.rows.dim(0); ++i) {
    for (int64_t k = 0; k < inputs; ++k) {
      const BF16 value = args.rows.dtype() == DType::kF32 ? to_bf16(args.rows.row<float>(i)[k])
                                                          : args.rows.row<BF16>(i)[k];
      std::memcpy(args.weight.data.as<uint8_t>() + place(args.weight.shape, args.first + i, k),
                  &value, 2);
    }
  }
}

void clear_contract(const TileClearArgs& args, const ShapeCheck& check) {
  weight_contract(args.weight, check);
}
OpCost clear_cost(const TileClearArgs& args) { return {args.weight.shape.bf16_bytes(), 0}; }
void clear_reference(Stream&, const TileClearArgs& args) {
  std::memset(args.weight.data.data(), 0, static_cast<size_t>(args.weight.shape.bf16_bytes()));
}

}  // namespace

int64_t tile_matmul_scratch_bytes(const TileShape& shape, int64_t rows) {
  const int64_t segments = segment_count(shape);
  if (segments == 1) return 0;
  // A step of fewer rows may need more than one of many.
  int64_t most = 0;
  for (const int64_t r : {8, 16, 32, 64, 96, 128}) {
    const TileKernel kernel = choose_tile_kernel(shape, std::min(r, rows));
    if (kernel <= TileKernel::kPaired128) most = std::max(most, pass_rows(kernel));
  }
  return shape.tiles() * segments * most * kTileOutputs * 4;
}

std::string tile_matmul_kernel(const TileShape& shape, int64_t rows) {
  constexpr const char* kNames[kTileKernelCount] = {
      "split rows 8", "split rows 16", "split rows 32", "split rows 64",
      "paired 96",    "paired 128",    "many rows 128", "many rows 256"};
  return kNames[static_cast<int>(choose_tile_kernel(shape, rows))];
}

constinit const Op<TileMatmulArgs> tile_matmul = {"tile_matmul",
                                                  matmul_contract,
                                                  matmul_cost,
                                                  matmul_reference,
                                                  {nullptr, tile_matmul_cuda_cell}};
constinit const Op<TilePackArgs> tile_pack = {
    "tile_pack", pack_contract, pack_cost, pack_reference, {nullptr, tile_pack_cuda_cell}};
constinit const Op<TileClearArgs> tile_clear = {
    "tile_clear", clear_contract, clear_cost, clear_reference, {nullptr, tile_clear_cuda_cell}};

}  // namespace ashlar
