// The layer that Llama, Qwen2 and Qwen3 share: a norm before attention and one before the
// feed-forward part, each part adding into the residual stream. Which biases, head norms and
// windows it has is its configuration.
#ifndef ASHLAR_MODELS_PRE_NORM_LAYER_H_
#define ASHLAR_MODELS_PRE_NORM_LAYER_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/model_builder.h"
#include "nn/norm.h"

namespace ashlar {

struct PreNormLayer {
  std::string name;  // "layers.3", for taps
  Norm input_norm;
  Attention attention;
  Norm post_norm;
  Mlp mlp;

  static Result<PreNormLayer> load(ModelBuilder& builder, int64_t index,
                                   const AttentionConfig& attention, const MlpConfig& mlp);
};

// Scratch of a step through such layers, embedding and head included.
int64_t pre_norm_workspace_bytes(const std::vector<PreNormLayer>& layers, const Norm& final_norm,
                                 const Head& head, int64_t rows, int64_t output_rows);

}  // namespace ashlar

#endif  // ASHLAR_MODELS_PRE_NORM_LAYER_H_
