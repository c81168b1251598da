// Mlp: the gated feed-forward part, down(act(gate(x)) * up(x)). Gate and up are one matmul whose
// epilogue is the activation, and down adds to the residual stream.
#ifndef ASHLAR_NN_MLP_H_
#define ASHLAR_NN_MLP_H_

#include <cstdint>
#include <string>

#include "base/error.h"
#include "nn/linear.h"
#include "nn/model_builder.h"
#include "nn/step.h"

namespace ashlar {

struct MlpConfig {
  int64_t hidden = 0;        // D
  int64_t feed_forward = 0;  // F
  GatedActivation activation = GatedActivation::kSilu;
  bool bias = false;
};

class Mlp {
 public:
  // Tensors prefix.gate_proj, prefix.up_proj and prefix.down_proj.
  static Result<Mlp> load(ModelBuilder& builder, const std::string& prefix,
                          const MlpConfig& config);

  // x [T D]; adds into residual [T D].
  void operator()(Step& step, TensorView x, TensorView residual) const;
  // The value alone, [T D] f32 in workspace memory.
  TensorView operator()(Step& step, TensorView x) const;

  int64_t workspace_bytes(int64_t rows) const;

 private:
  TensorView activated(Step& step, TensorView x) const;  // [T F]

  MlpConfig config_;
  DType type_ = DType::kF32;  // of activations
  Linear gate_up_;
  Linear down_;
};

}  // namespace ashlar

#endif  // ASHLAR_NN_MLP_H_
