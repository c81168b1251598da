// The CUDA cell of attention, host part: the map of the pages, which kernels a call needs, and
// their grids. All of it follows from shapes, so a recorded call serves every content of the index
// arrays.
//
//   few rows for all sequences (T <= S, or T pairs at most kFewPairs): decode alone
//   one sequence, many rows: prefill alone
//   else both: a sequence with at most kFewPairs pairs is decode's
#include <algorithm>
#include <limits>

#include "base/align.h"
#include "device/launch_cuda.h"
#include "kernels/attention/attention_cells.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/attention/attention_scratch.h"
#include "kernels/hopper/tensor_map_cuda.h"

namespace ashlar {

namespace {

constexpr double kLog2E = 1.4426950408889634;

void require(bool condition, const char* what) {
  ShapeCheck("attention on CUDA").require(condition, what);
}

void check_limits(const AttentionArgs& args) {
  const int64_t size = args.pages.dim(3);
  require(args.q.dtype() == DType::kBF16 && args.pages.dtype() == DType::kBF16,
          "q, y and pages of bf16");
  require(size == 64 || size == 96 || size == 128 || size == 256,
          "a head size of 64, 96, 128 or 256");
  require(args.pages.dim(2) % 8 == 0, "page positions that are a multiple of 8");
  require(args.page_table.dim(0) >= 1 && args.page_table.dim(0) <= kAttentionMaxSequences,
          "1 to 1,024 sequences");
  require(args.q.dim(1) / size / (args.pages.dim(1) / 2) <= 64,
          "at most 64 query heads a key head");
  require(args.pages.dim(0) * args.pages.dim(1) * args.pages.dim(2) <=
              std::numeric_limits<int32_t>::max(),
          "pages with fewer than 2^31 lines");
  require(args.q.row_stride() % 8 == 0 && args.y.row_stride() % 8 == 0 &&
              reinterpret_cast<uintptr_t>(args.q.data()) % 16 == 0 &&
              reinterpret_cast<uintptr_t>(args.y.data()) % 16 == 0,
          "rows of q and y at multiples of 16 bytes");
  require(args.scale > 0.0f && args.soft_cap >= 0.0f, "a positive scale and no negative soft-cap");
}

AttentionCudaArgs kernel_args(const AttentionArgs& args) {
  const bool capped = args.soft_cap > 0.0f;
  const int64_t window = args.window > 0 ? args.window : std::numeric_limits<int32_t>::max();
  AttentionCudaArgs k = {};
  k.q = static_cast<const uint16_t*>(args.q.data());
  k.y = static_cast<uint16_t*>(args.y.data());
  k.page_table = args.page_table.as<int32_t>();
  k.positions = args.positions.as<int32_t>();
  k.sequence_starts = args.sequence_starts.as<int32_t>();
  k.scratch = args.scratch.empty() ? nullptr : args.scratch.as<float>();
  k.q_stride = args.q.row_stride();
  k.y_stride = args.y.row_stride();
  k.table_stride = args.page_table.row_stride();
  k.rows = static_cast<int32_t>(args.q.dim(0));
  k.sequences = static_cast<int32_t>(args.page_table.dim(0));
  k.kv_heads = static_cast<int32_t>(args.pages.dim(1) / 2);
  k.group = static_cast<int32_t>(args.q.dim(1) / args.pages.dim(3) / k.kv_heads);
  k.page_positions = static_cast<int32_t>(args.pages.dim(2));
  k.window = static_cast<int32_t>(std::min<int64_t>(window, std::numeric_limits<int32_t>::max()));
  k.factor = static_cast<float>((capped ? 1.0 : static_cast<double>(args.scale)) * kLog2E);
  k.cap = args.soft_cap;
  k.cap_factor =
      capped ? static_cast<float>(static_cast<double>(args.scale) / args.soft_cap) : 0.0f;
  return k;
}

AttentionSizes sizes_of(const AttentionArgs& args) {
  return {.rows = args.q.dim(0),
          .sequences = args.page_table.dim(0),
          .heads = args.q.dim(1) / args.pages.dim(3),
          .kv_heads = args.pages.dim(1) / 2,
          .head_size = args.pages.dim(3),
          .table_positions = args.page_table.dim(1) * args.pages.dim(2)};
}

}  // namespace

void attention_cuda(Stream& stream, const AttentionArgs& args) {
  if (args.q.dim(0) == 0) return;
  check_limits(args);
  const TensorView lines(
      args.pages.data(), DType::kBF16,
      {args.pages.dim(0) * args.pages.dim(1) * args.pages.dim(2), args.pages.dim(3)});
  const CUtensorMap pages =
      hopper::box_map(stream, "attention", lines, static_cast<int>(args.pages.dim(2)));
  AttentionCudaArgs k = kernel_args(args);
  const AttentionSizes sizes = sizes_of(args);
  const int head_size = static_cast<int>(args.pages.dim(3));
  const int64_t processors = cuda_traits(stream).multiprocessors;

  const bool only_few = sizes.rows <= sizes.sequences || sizes.rows * k.group <= int64_t{kFewPairs};
  const bool only_many = !only_few && sizes.sequences == 1;
  if (!only_many) {
    const AttentionDecodeCut cut = attention_decode_cut(sizes, processors);
    CHECK_LE(cut.scratch_bytes(sizes.head_size),
             static_cast<int64_t>(args.scratch.shape().count()) * 4);
    k.few_pairs = only_few ? std::numeric_limits<int32_t>::max() : kFewPairs;
    k.run_slots = static_cast<int32_t>(cut.run_slots);
    k.zero_padding = true;
    launch_attention_decode(stream, pages, k, head_size, static_cast<int>(cut.ctas));
  }
  if (!only_few) {
    const int64_t rows_of_item = 128 / k.group;
    const int64_t items =
        (sizes.rows / rows_of_item + sizes.sequences) * static_cast<int64_t>(k.kv_heads);
    k.few_pairs = only_many ? 0 : kFewPairs;
    k.zero_padding = only_many;
    launch_attention_prefill(stream, pages, k, head_size,
                             static_cast<int>(std::min(items, processors)));
  }
}

}  // namespace ashlar
