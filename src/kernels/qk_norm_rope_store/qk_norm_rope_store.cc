// Contract, cost and reference of qk_norm_rope_store. The reference also serves head sizes and page
// types that the vector cell does not take.
#include "kernels/qk_norm_rope_store/qk_norm_rope_store.h"

#include <type_traits>

#include "kernels/kv_pages.h"
#include "kernels/parallel_rows.h"
#include "kernels/qk_norm_rope_store/qk_norm_rope_store_cells.h"
#include "kernels/rms_norm/row_norm.h"

namespace ashlar {

[[gnu::weak]] void qk_norm_rope_store_cuda(Stream& stream, const QkNormRopeStoreArgs& args);

namespace {

void contract(const QkNormRopeStoreArgs& args, const ShapeCheck& check) {
  check.require(args.pages.shape().rank() == 4, "pages of rank 4");
  const int64_t rows = args.qkv.dim(0);
  const int64_t size = args.pages.dim(3);
  check.require(args.qkv.shape().rank() == 2, "qkv of rank 2");
  check.require(size % 2 == 0 && args.pages.dim(1) % 2 == 0,
                "even head size and pages with keys and values");
  check.require(args.qkv.dim(1) % size == 0 && args.qkv.dim(1) / size > args.pages.dim(1),
                "qkv with whole heads, more than those of keys and values");
  check.require(args.cos_sin.shape().rank() == 2 && args.cos_sin.dim(1) == size,
                "cos_sin [positions K]");
  check.require(args.page_table.shape().rank() == 2, "page_table of rank 2");
  check.shape(args.positions, {rows}, "positions");
  check.shape(args.row_sequence, {rows}, "row_sequence");
  if (!args.q_norm.empty()) check.shape(args.q_norm, {size}, "q_norm");
  if (!args.k_norm.empty()) check.shape(args.k_norm, {size}, "k_norm");
  check.require(args.qkv.dtype() == DType::kF32 || args.qkv.dtype() == DType::kBF16,
                "qkv of f32, or of bf16 on CUDA");
  check.dtype(args.cos_sin, DType::kF32, "cos_sin");
  check.dtype(args.positions, DType::kI32, "positions");
  check.dtype(args.row_sequence, DType::kI32, "row_sequence");
  check.dtype(args.page_table, DType::kI32, "page_table");
  check.require(is_kv_type(args.pages.dtype()), "pages of f32, f16 or bf16");
}

OpCost cost(const QkNormRopeStoreArgs& args) {
  const int64_t rows = args.qkv.dim(0);
  const int64_t kv = args.pages.dim(1) * args.pages.dim(3);  // keys and values of a row
  const int64_t q = args.qkv.dim(1) - kv;
  const int64_t element_bytes = static_cast<int64_t>(dtype_bytes(args.qkv.dtype()));
  return {rows * (element_bytes * (2 * q + kv) +
                  kv * static_cast<int64_t>(dtype_bytes(args.pages.dtype()))),
          rows * 7 * (q + kv / 2)};
}

// Norms (if weight is not null) and rotates one head in place.
void norm_and_rotate(float* x, int64_t size, const float* weight, float eps, const float* cos_sin) {
  if (weight != nullptr) {
    const float inverse = inverse_rms(x, size, eps);
    for (int64_t k = 0; k < size; ++k) x[k] = x[k] * inverse * weight[k];
  }
  const int64_t half = size / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float c = cos_sin[i];
    const float s = cos_sin[half + i];
    const float low = x[i];
    const float high = x[half + i];
    x[i] = low * c - high * s;
    x[half + i] = high * c + low * s;
  }
}

template <class T>
void row(const QkNormRopeStoreArgs& args, int64_t t) {
  const StorePlace place(args, t);
  if (place.padding) return;
  const int64_t kv_heads = args.pages.dim(1) / 2;
  const int64_t page_positions = args.pages.dim(2);
  const int64_t size = args.pages.dim(3);
  const int64_t heads = args.qkv.dim(1) / size - 2 * kv_heads;
  const float* q_norm = args.q_norm.empty() ? nullptr : args.q_norm.as<float>();
  const float* k_norm = args.k_norm.empty() ? nullptr : args.k_norm.as<float>();

  float* q = args.qkv.row<float>(t);
  for (int64_t h = 0; h < heads; ++h)
    norm_and_rotate(q + h * size, size, q_norm, args.eps, place.cos_sin);

  const KvPages<T> pages(args.pages);
  for (int64_t g = 0; g < kv_heads; ++g) {
    float* k = q + (heads + g) * size;
    const float* v = q + (heads + kv_heads + g) * size;
    norm_and_rotate(k, size, k_norm, args.eps, place.cos_sin);
    T* keys = pages.keys(place.page, g) + place.offset;
    T* values = pages.values(place.page, g) + place.offset * size;
    for (int64_t i = 0; i < size; ++i)
      keys[i * page_positions] = from_float(k[i], static_cast<T*>(nullptr));
    for (int64_t i = 0; i < size; ++i) values[i] = from_float(v[i], static_cast<T*>(nullptr));
  }
}

}  // namespace

StorePlace::StorePlace(const QkNormRopeStoreArgs& args, int64_t t) {
  const int32_t sequence = args.row_sequence.as<int32_t>()[t];
  padding = sequence < 0;
  if (padding) return;
  const int64_t position = args.positions.as<int32_t>()[t];
  const int64_t page_positions = args.pages.dim(2);
  CHECK_GE(position, 0);
  // The table covers the context length; the engine admits no more.
  CHECK_LT(position, args.cos_sin.dim(0));
  cos_sin = args.cos_sin.row<float>(position);
  CHECK_LT(position / page_positions, args.page_table.dim(1));
  page = args.page_table.row<int32_t>(sequence)[position / page_positions];
  CHECK_GE(page, 0);
  CHECK_LT(page, args.pages.dim(0));
  offset = position % page_positions;
}

void qk_norm_rope_store_reference(Stream& stream, const QkNormRopeStoreArgs& args) {
  with_kv_type(args.pages.dtype(), [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    parallel_rows(stream, args.qkv.rows(), [&](int64_t t) { row<T>(args, t); });
  });
}

constinit const Op<QkNormRopeStoreArgs> qk_norm_rope_store = {
    "qk_norm_rope_store",
    contract,
    cost,
    qk_norm_rope_store_reference,
    {qk_norm_rope_store_cpu, qk_norm_rope_store_cuda}};

}  // namespace ashlar
