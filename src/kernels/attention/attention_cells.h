// The cells of attention, for its table and its tests; layers call the op in attention.h.
#ifndef ASHLAR_KERNELS_ATTENTION_ATTENTION_CELLS_H_
#define ASHLAR_KERNELS_ATTENTION_ATTENTION_CELLS_H_

#include "kernels/attention/attention.h"

namespace ashlar {

void attention_reference(Stream& stream, const AttentionArgs& args);
// Vector code for head sizes that are multiples of 16 and pages of whole 32 positions; else calls
// the reference.
void attention_cpu(Stream& stream, const AttentionArgs& args);
// bf16 alone; null in a build without CUDA.
[[gnu::weak]] void attention_cuda(Stream& stream, const AttentionArgs& args);

// Rows outside every sequence get a y of zeros: padding must not carry old bits along.
void zero_padding_rows(const AttentionArgs& args);

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_ATTENTION_ATTENTION_CELLS_H_
