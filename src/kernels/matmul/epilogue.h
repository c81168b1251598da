// What happens to the f32 sum of a matmul's output before it is stored, and the only definition of
// it for one value. Everything is f32, each operation rounds once, in the order written here. A
// fused epilogue gives the bits of a matmul followed by separate operations.
#ifndef ASHLAR_KERNELS_MATMUL_EPILOGUE_H_
#define ASHLAR_KERNELS_MATMUL_EPILOGUE_H_

#include <cstdint>

#include "kernels/math/activation.h"
#include "tensor/tensor_view.h"

namespace ashlar {

enum class GatedActivation : uint8_t { kNone, kSilu, kGeluTanh };

struct Epilogue {
  TensorView bias = {};                            // [N] f32, or empty
  GatedActivation gated = GatedActivation::kNone;  // y[m f] = act(gate[m f]) * up[m f], f < N/2
  bool add_to_output = false;                      // y += value: the residual stream
  // The head: columns from here on become -inf and their rows are not read. 0: all are computed.
  // Not with gated or add_to_output.
  int64_t decodable = 0;
};

[[gnu::always_inline]] inline float apply_gate(GatedActivation gated, float gate, float up) {
  return (gated == GatedActivation::kSilu ? silu(gate) : gelu_tanh(gate)) * up;
}

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_MATMUL_EPILOGUE_H_
