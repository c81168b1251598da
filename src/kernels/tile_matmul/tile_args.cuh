// What both kernels of tile_matmul are told, and what becomes of a sum: the one definition of the
// epilogue on the device. Each operation rounds once, in the order written here.
#ifndef ASHLAR_KERNELS_TILE_MATMUL_TILE_ARGS_CUH_
#define ASHLAR_KERNELS_TILE_MATMUL_TILE_ARGS_CUH_

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/math/device_math.cuh"
#include "kernels/tile_matmul/tile_layout.h"

namespace ashlar::tile_matmul_cuda {

enum class Finish : int32_t { kStoreBf16, kStoreF32, kAddF32, kGatedSilu, kGatedGeluTanh };

constexpr bool is_gated(Finish finish) { return finish >= Finish::kGatedSilu; }

struct TileArgs {
  const std::byte* weight;  // in the layout of tile_layout.h
  void* y;                  // [rows columns], of the type that `finish` names
  const float* bias;        // by output, gates before ups; or null
  int64_t y_stride;         // elements between rows
  int32_t rows;             // M
  int32_t columns;          // of y
  int32_t outputs;          // of the weight; the tiles beyond have no bias
  int32_t computed;         // columns from here on are -inf; for kStoreF32, else all
  int32_t tiles;
  int32_t blocks;
  int32_t segments;
  int32_t steps;   // pairs of blocks of the longest segment
  int32_t whole;   // pairs that all segments have
  int32_t longer;  // segments, the first ones, that have one more
  Finish finish;
  float* sums;  // scratch

  // Step `step` of a tile: a pair of blocks of each segment.
  __device__ const std::byte* step_of(int64_t tile, int step) const {
    return weight + (tile * steps + step) * segments * (2 * kBlockBytes);
  }
  __device__ int pairs_of(int segment) const { return whole + (segment < longer); }
  __device__ int first_pair(int segment) const { return segment * whole + min(segment, longer); }
};

constexpr float kMasked = -__builtin_huge_valf();

__device__ __forceinline__ float with_bias(const TileArgs& args, float sum, int64_t output) {
  return args.bias == nullptr || output >= args.outputs ? sum : __fadd_rn(sum, args.bias[output]);
}

// The value of a gated column f, before it is rounded.
template <Finish finish>
__device__ __forceinline__ float gated_value(const TileArgs& args, int64_t f, float gate,
                                             float up) {
  gate = with_bias(args, gate, f);
  up = with_bias(args, up, args.columns + f);
  const float act = finish == Finish::kGatedSilu ? device_silu(gate) : device_gelu_tanh(gate);
  return __fmul_rn(act, up);
}

// Column n < columns of row m. Not for gates.
template <Finish finish>
__device__ __forceinline__ void finish_plain(const TileArgs& args, int64_t m, int64_t n,
                                             float sum) {
  const int64_t at = m * args.y_stride + n;
  if constexpr (finish == Finish::kStoreF32) {
    static_cast<float*>(args.y)[at] = n < args.computed ? with_bias(args, sum, n) : kMasked;
  } else if constexpr (finish == Finish::kAddF32) {
    float* y = static_cast<float*>(args.y) + at;
    *y = __fadd_rn(*y, with_bias(args, sum, n));
  } else {
    static_cast<__nv_bfloat16*>(args.y)[at] = __float2bfloat16_rn(with_bias(args, sum, n));
  }
}

// Column f < columns of row m.
template <Finish finish>
__device__ __forceinline__ void finish_gated(const TileArgs& args, int64_t m, int64_t f, float gate,
                                             float up) {
  static_cast<__nv_bfloat16*>(args.y)[m * args.y_stride + f] =
      __float2bfloat16_rn(gated_value<finish>(args, f, gate, up));
}

// Columns beyond the last unit of outputs that is computed, by `threads` threads of each CTA.
__device__ __forceinline__ void mask_rest(const TileArgs& args, int unit, int threads) {
  if (args.finish != Finish::kStoreF32) return;
  const int64_t begin = (args.computed + unit - 1) / unit * unit;
  const int64_t count = args.columns - begin;
  if (count <= 0) return;
  const int64_t step = static_cast<int64_t>(gridDim.x) * threads;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(threads) + threadIdx.x; i < count * args.rows;
       i += step) {
    static_cast<float*>(args.y)[i / count * args.y_stride + begin + i % count] = kMasked;
  }
}

}  // namespace ashlar::tile_matmul_cuda

#endif  // ASHLAR_KERNELS_TILE_MATMUL_TILE_ARGS_CUH_
