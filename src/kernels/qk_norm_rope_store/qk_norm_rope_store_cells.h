// The cells of qk_norm_rope_store and what they share, for its table and its tests; layers call the
// op in qk_norm_rope_store.h.
#ifndef ASHLAR_KERNELS_QK_NORM_ROPE_STORE_QK_NORM_ROPE_STORE_CELLS_H_
#define ASHLAR_KERNELS_QK_NORM_ROPE_STORE_QK_NORM_ROPE_STORE_CELLS_H_

#include "kernels/qk_norm_rope_store/qk_norm_rope_store.h"

namespace ashlar {

constexpr int64_t kMaxVectorHead = 512;  // of the vector cell

// Where the keys and values of row t go. Positions and pages are device data and cannot be part of
// the contract, so they are checked here.
struct StorePlace {
  StorePlace(const QkNormRopeStoreArgs& args, int64_t t);
  bool padding = false;  // then nothing else is set
  const float* cos_sin = nullptr;
  int64_t page = 0;
  int64_t offset = 0;  // in the page
};

void qk_norm_rope_store_reference(Stream& stream, const QkNormRopeStoreArgs& args);
void qk_norm_rope_store_cpu(Stream& stream, const QkNormRopeStoreArgs& args);

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_QK_NORM_ROPE_STORE_QK_NORM_ROPE_STORE_CELLS_H_
