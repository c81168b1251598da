// Attention: grouped self-attention over paged keys and values, from normed rows to what enters the
// residual stream.
//
// Three operations a layer besides the two matmuls' own: q, k and v come from one matmul; norm,
// rotation and the write into pages are one pass; attention reads the pages. The block declares its
// PagedState when it is loaded.
#ifndef ASHLAR_NN_ATTENTION_H_
#define ASHLAR_NN_ATTENTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "kernels/attention/attention_scratch.h"
#include "nn/linear.h"
#include "nn/model_builder.h"
#include "nn/norm.h"
#include "nn/rope.h"
#include "nn/step.h"

namespace ashlar {

struct AttentionConfig {
  int64_t hidden = 0;     // D
  int64_t heads = 0;      // H
  int64_t kv_heads = 0;   // G, divides H
  int64_t head_size = 0;  // K
  double scale = 0.0;     // of the scores
  int64_t window = 0;     // positions a row sees, itself included; 0: all
  bool qkv_bias = false;
  bool output_bias = false;
  std::optional<NormWeight> qk_norm;  // norm of each query and key head, before rotation
  double norm_eps = 0.0;
  std::shared_ptr<const Rope> rope;
};

class Attention {
 public:
  // Tensors prefix.{q,k,v,o}_proj and, where the family has them, prefix.{q,k}_norm.
  static Result<Attention> load(ModelBuilder& builder, const std::string& prefix,
                                const AttentionConfig& config);

  // x [T D]; adds into residual [T D].
  void operator()(Step& step, TensorView x, TensorView residual) const;
  // The value alone, [T D] f32 in workspace memory.
  TensorView operator()(Step& step, TensorView x) const;

  int64_t workspace_bytes(int64_t rows) const;

 private:
  TensorView attend(Step& step, TensorView x) const;  // [T H*K]

  AttentionSizes sizes(int64_t rows, int64_t sequences, int64_t positions) const;

  AttentionConfig config_;
  Backend backend_ = Backend::kCpu;
  int state_ = 0;  // PagedState id
  Linear qkv_;
  Linear output_;
  std::optional<Norm> q_norm_;
  std::optional<Norm> k_norm_;
};

}  // namespace ashlar

#endif  // ASHLAR_NN_ATTENTION_H_
