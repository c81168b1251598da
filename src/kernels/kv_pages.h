// Where a key or a value lies in the paged cache: the one place that knows the layout of a page.
//
// A layer's pages are [pages 2G B K]: for each page G heads of keys, then G heads of values, B
// positions of K numbers each. Within a head values lie as [B K] and keys transposed, as [K B]:
// scores of neighbouring positions are then neighbouring lanes, so a score is one FMA chain over K
// whatever the width of a vector, and the 32 positions of a page are one or two cache lines. A
// position is written once, so the scattered write of its key costs little.
#ifndef ASHLAR_KERNELS_KV_PAGES_H_
#define ASHLAR_KERNELS_KV_PAGES_H_

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ashlar {

// T is float, F16 or BF16.
template <class T>
class KvPages {
 public:
  explicit KvPages(TensorView pages)
      : data_(pages.as<T>()),
        heads_(pages.dim(1) / 2),
        positions_(pages.dim(2)),
        size_(pages.dim(3)) {}

  // [K B]: element k of the key at offset b is at k * B + b.
  T* keys(int64_t page, int64_t head) const {
    return data_ + (page * 2 * heads_ + head) * positions_ * size_;
  }
  // [B K].
  T* values(int64_t page, int64_t head) const { return keys(page, heads_ + head); }

 private:
  T* data_;
  int64_t heads_;      // G
  int64_t positions_;  // B
  int64_t size_;       // K
};

inline float from_float(float v, float*) { return v; }
inline F16 from_float(float v, F16*) { return to_f16(v); }
inline BF16 from_float(float v, BF16*) { return to_bf16(v); }
inline float kv_to_float(float v) { return v; }
inline float kv_to_float(F16 v) { return to_float(v); }
inline float kv_to_float(BF16 v) { return to_float(v); }

// Calls body with a null pointer of the element type of the pages:
// body(static_cast<F16*>(nullptr)).
template <class Body>
void with_kv_type(DType type, const Body& body) {
  switch (type) {
    case DType::kF32:
      return body(static_cast<float*>(nullptr));
    case DType::kF16:
      return body(static_cast<F16*>(nullptr));
    case DType::kBF16:
      return body(static_cast<BF16*>(nullptr));
    default:
      CHECK(false);
  }
}

inline bool is_kv_type(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16;
}

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_KV_PAGES_H_
