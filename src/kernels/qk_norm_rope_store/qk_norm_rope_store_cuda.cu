// The CUDA cell of qk_norm_rope_store: a warp a head and row, so that one row of 48 heads already
// uses a dozen SMs, and no head waits for another; with many rows four heads a warp, which share
// what their row needs. A head is computed the same either way.
//
// A lane holds kVector neighbouring elements of the first half of a head and their partners of the
// second half, so rotation stays in the lane: kVector is 2 up to a head of 128 and 4 to 256; lanes
// beyond K / (2 kVector) idle. Sum of squares: a lane adds its elements of the first half, then
// those of the second, as one FMA chain; then the tree of warp_sum. It depends on K alone. All f32;
// queries round once to bf16, keys and values once to the pages' type.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "base/align.h"
#include "device/launch_cuda.h"
#include "kernels/hopper/dependent_launch.cuh"
#include "kernels/kv_pages_cuda.cuh"
#include "kernels/math/block_sum.cuh"
#include "kernels/math/device_math.cuh"
#include "kernels/qk_norm_rope_store/qk_norm_rope_store.h"

namespace ashlar {

namespace {

constexpr int kWarps = 4;        // of a CTA
constexpr int kHeadsOfWarp = 4;  // where there are rows enough to fill the device
constexpr int64_t kFewRows = 128;

struct StoreKernelArgs {
  __nv_bfloat16* qkv;
  int64_t qkv_stride;
  const float* q_norm;  // null: heads are not normed
  const float* k_norm;
  const float* cos_sin;  // [table_positions K]
  const int32_t* positions;
  const int32_t* row_sequence;
  const int32_t* page_table;
  void* pages;
  int64_t table_stride;
  int64_t page_count;
  int32_t table_positions;
  int32_t table_pages;
  int32_t page_positions;
  int32_t heads;
  int32_t kv_heads;
  int32_t size;
  float eps;
};

template <int kVector>
struct Half {
  float v[kVector];
};

template <int kVector>
__device__ __forceinline__ Half<kVector> load_half(const __nv_bfloat16* x) {
  Half<kVector> half;
  uint32_t pairs[kVector / 2];
  if constexpr (kVector == 4) {
    const uint2 both = *reinterpret_cast<const uint2*>(x);
    pairs[0] = both.x;
    pairs[1] = both.y;
  } else {
    pairs[0] = *reinterpret_cast<const uint32_t*>(x);
  }
#pragma unroll
  for (int i = 0; i < kVector / 2; ++i) {
    half.v[2 * i] = bf16_low(pairs[i]);
    half.v[2 * i + 1] = bf16_high(pairs[i]);
  }
  return half;
}

template <int kVector>
__device__ __forceinline__ Half<kVector> load_half(const float* x) {
  Half<kVector> half;
#pragma unroll
  for (int i = 0; i < kVector; i += 2) {
    const float2 pair = *reinterpret_cast<const float2*>(x + i);
    half.v[i] = pair.x;
    half.v[i + 1] = pair.y;
  }
  return half;
}

__device__ __forceinline__ uint32_t rounded_pair(float low, float high, const __nv_bfloat16*) {
  return round_bf16_pair(low, high);
}
__device__ __forceinline__ uint32_t rounded_pair(float low, float high, const __half*) {
  const __half2 pair = __halves2half2(round_f16(low), round_f16(high));
  return *reinterpret_cast<const uint32_t*>(&pair);
}

template <int kVector, class T>
__device__ __forceinline__ void store_half(const Half<kVector>& half, T* y) {
#pragma unroll
  for (int i = 0; i < kVector; i += 2) {
    if constexpr (sizeof(T) == 4) {
      *reinterpret_cast<float2*>(y + i) = {half.v[i], half.v[i + 1]};
    } else {
      *reinterpret_cast<uint32_t*>(y + i) = rounded_pair(half.v[i], half.v[i + 1], y);
    }
  }
}

// The two halves of a lane's pairs.
template <int kVector>
struct Pairs {
  Half<kVector> low;
  Half<kVector> high;
};

template <int kVector, class T>
__device__ __forceinline__ Pairs<kVector> load_pairs(const T* x, int half, bool active) {
  if (!active) return {};
  return {load_half<kVector>(x), load_half<kVector>(x + half)};
}

template <int kVector>
__device__ __forceinline__ void norm(Pairs<kVector>& x, const Pairs<kVector>& weight, int size,
                                     float eps) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kVector; ++i) sum = __fmaf_rn(x.low.v[i], x.low.v[i], sum);
#pragma unroll
  for (int i = 0; i < kVector; ++i) sum = __fmaf_rn(x.high.v[i], x.high.v[i], sum);
  const float mean = __fdiv_rn(warp_sum(sum), static_cast<float>(size));
  const float inverse = device_rsqrt(__fadd_rn(mean, eps));
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    x.low.v[i] = __fmul_rn(__fmul_rn(x.low.v[i], inverse), weight.low.v[i]);
    x.high.v[i] = __fmul_rn(__fmul_rn(x.high.v[i], inverse), weight.high.v[i]);
  }
}

template <int kVector>
__device__ __forceinline__ void rotate(Pairs<kVector>& pairs, const Pairs<kVector>& table) {
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const float x = pairs.low.v[i];
    const float y = pairs.high.v[i];
    const float c = table.low.v[i];
    const float s = table.high.v[i];
    pairs.low.v[i] = __fsub_rn(__fmul_rn(x, c), __fmul_rn(y, s));
    pairs.high.v[i] = __fadd_rn(__fmul_rn(y, c), __fmul_rn(x, s));
  }
}

// What becomes of one head, once its pairs and all that its row shares are loaded.
template <class T, int kVector>
__device__ __forceinline__ void finish_head(const StoreKernelArgs& args, int head,
                                            Pairs<kVector>& pairs, const Pairs<kVector>& q_weight,
                                            const Pairs<kVector>& k_weight,
                                            const Pairs<kVector>& cos_sin, __nv_bfloat16* row,
                                            T* page, int64_t offset, int first, bool active) {
  const int half = args.size / 2;
  const bool is_query = head < args.heads;
  if (head < args.heads + args.kv_heads) {
    const float* weight = is_query ? args.q_norm : args.k_norm;
    if (weight != nullptr)
      norm<kVector>(pairs, is_query ? q_weight : k_weight, args.size, args.eps);
    rotate<kVector>(pairs, cos_sin);
  }
  if (!active) return;
  if (is_query) {
    __nv_bfloat16* to = row + static_cast<int64_t>(head) * args.size + first;
    store_half<kVector>(pairs.low, to);
    store_half<kVector>(pairs.high, to + half);
    return;
  }
  // Heads of keys, then of values, in the row as in the page.
  const int64_t in_page = static_cast<int64_t>(head - args.heads) * args.page_positions;
  T* to = page + in_page * args.size + offset + first;
  store_half<kVector>(pairs.low, to);
  store_half<kVector>(pairs.high, to + half);
}

// Grid [T, heads / (kWarps kHeads)], kHeads heads a warp. T is the element type of the pages. Loads
// are issued as early as what they depend on allows: at one row the kernel is three memory
// latencies and little else.
template <class T, int kVector, int kHeads>
__global__ void __launch_bounds__(32 * kWarps) qk_norm_rope_store_kernel(StoreKernelArgs args) {
  const int64_t t = blockIdx.x;
  const int warp = static_cast<int>(blockIdx.y) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int first_head = warp * kHeads;
  const int all_heads = args.heads + 2 * args.kv_heads;
  const int half = args.size / 2;
  const int first = static_cast<int>(threadIdx.x) % 32 * kVector;
  const bool active = first < half;
  // Weights never change, so they may be read before the predecessor is done.
  const auto load_weight = [&](const float* weight) {
    return load_pairs<kVector>(weight + first, half, active && weight != nullptr);
  };
  const Pairs<kVector> q_weight = load_weight(args.q_norm);
  const Pairs<kVector> k_weight = load_weight(args.k_norm);
  wait_for_predecessor();
  let_successor_start();
  if (first_head >= all_heads) return;
  __nv_bfloat16* row = args.qkv + t * args.qkv_stride;
  const int32_t sequence = args.row_sequence[t];
  const int32_t position = args.positions[t];
  Pairs<kVector> pairs[kHeads];
#pragma unroll
  for (int i = 0; i < kHeads; ++i) {
    pairs[i] = load_pairs<kVector>(row + static_cast<int64_t>(first_head + i) * args.size + first,
                                   half, active && first_head + i < all_heads);
  }
  if (sequence < 0) return;
  // What the CPU cell checks; nothing here can report, and a wrong address must not be written.
  const int32_t entry = position / args.page_positions;
  if (position < 0 || position >= args.table_positions || entry >= args.table_pages) __trap();
  const int32_t index = args.page_table[sequence * args.table_stride + entry];
  const float* table = args.cos_sin + static_cast<int64_t>(position) * args.size;
  const Pairs<kVector> cos_sin = load_pairs<kVector>(table + first, half, active);
  if (index < 0 || index >= args.page_count) __trap();
  const CudaKvPages<T> pages = {static_cast<T*>(args.pages), args.kv_heads, args.page_positions,
                                args.size};
  const int64_t offset = static_cast<int64_t>(position % args.page_positions) * args.size;
#pragma unroll
  for (int i = 0; i < kHeads; ++i) {
    if (first_head + i >= all_heads) return;
    finish_head<T, kVector>(args, first_head + i, pairs[i], q_weight, k_weight, cos_sin, row,
                            pages.keys(index, 0), offset, first, active);
  }
}

template <class T>
auto kernel_for(int64_t size, bool many) -> void (*)(StoreKernelArgs) {
  if (size <= 128) {
    return many ? qk_norm_rope_store_kernel<T, 2, kHeadsOfWarp>
                : qk_norm_rope_store_kernel<T, 2, 1>;
  }
  return many ? qk_norm_rope_store_kernel<T, 4, kHeadsOfWarp> : qk_norm_rope_store_kernel<T, 4, 1>;
}

}  // namespace

void qk_norm_rope_store_cuda(Stream& stream, const QkNormRopeStoreArgs& args) {
  const int64_t size = args.pages.dim(3);
  const int64_t kv_heads = args.pages.dim(1) / 2;
  const int64_t all_heads = args.qkv.dim(1) / size;
  CHECK(args.qkv.dtype() == DType::kBF16);
  CHECK(size <= 256 && size % (size <= 128 ? 4 : 8) == 0);
  CHECK(reinterpret_cast<uintptr_t>(args.qkv.data()) % 8 == 0 && args.qkv.row_stride() % 4 == 0);
  CHECK(args.cos_sin.contiguous());
  const StoreKernelArgs kernel_args = {static_cast<__nv_bfloat16*>(args.qkv.data()),
                                       args.qkv.row_stride(),
                                       args.q_norm.empty() ? nullptr : args.q_norm.as<float>(),
                                       args.k_norm.empty() ? nullptr : args.k_norm.as<float>(),
                                       args.cos_sin.as<float>(),
                                       args.positions.as<int32_t>(),
                                       args.row_sequence.as<int32_t>(),
                                       args.page_table.as<int32_t>(),
                                       args.pages.data(),
                                       args.page_table.row_stride(),
                                       args.pages.dim(0),
                                       static_cast<int32_t>(args.cos_sin.dim(0)),
                                       static_cast<int32_t>(args.page_table.dim(1)),
                                       static_cast<int32_t>(args.pages.dim(2)),
                                       static_cast<int32_t>(all_heads - 2 * kv_heads),
                                       static_cast<int32_t>(kv_heads),
                                       static_cast<int32_t>(size),
                                       args.eps};
  const bool many = args.qkv.rows() > kFewRows;
  const int64_t heads_of_cta = kWarps * (many ? kHeadsOfWarp : 1);
  auto kernel = kernel_for<__nv_bfloat16>(size, many);
  if (args.pages.dtype() == DType::kF16) kernel = kernel_for<__half>(size, many);
  if (args.pages.dtype() == DType::kF32) kernel = kernel_for<float>(size, many);
  launch(stream, "qk_norm_rope_store", kernel,
         {.grid = dim3(static_cast<unsigned>(args.qkv.rows()),
                       static_cast<unsigned>(divide_up(all_heads, heads_of_cta))),
          .block = dim3(32 * kWarps)},
         kernel_args);
}

}  // namespace ashlar
