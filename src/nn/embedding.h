// Embedding and Head: tokens into rows at the beginning, rows into logits at the end. A tied head
// shares the weight.
//
// The mask of ids that the tokenizer cannot print is part of the head's matmul: whoever has logits
// has masked ones.
#ifndef ASHLAR_NN_EMBEDDING_H_
#define ASHLAR_NN_EMBEDDING_H_

#include <cstdint>
#include <memory>

#include "formats/format.h"
#include "nn/step.h"

namespace ashlar {

class Embedding {
 public:
  Embedding() = default;
  Embedding(std::shared_ptr<const Weight> weight, float scale)
      : weight_(std::move(weight)), scale_(scale) {}

  const std::shared_ptr<const Weight>& weight() const { return weight_; }

  // [T D] f32 in workspace memory.
  TensorView operator()(Step& step) const;

 private:
  std::shared_ptr<const Weight> weight_;
  float scale_ = 1.0f;
};

class Head {
 public:
  Head() = default;
  // Logits of ids from `decodable` on are -inf; 0: every row of the weight is decodable.
  Head(std::shared_ptr<const Weight> weight, int64_t decodable)
      : weight_(std::move(weight)), decodable_(decodable) {}

  // x [R D] of the activation type; logits [R V] f32. R may be 0: a chunk of a prompt.
  void operator()(Step& step, TensorView x, TensorView logits) const;
  int64_t workspace_bytes(int64_t rows) const { return weight_->workspace_bytes(rows); }

 private:
  std::shared_ptr<const Weight> weight_;
  int64_t decodable_ = 0;
};

// The rows of x whose logits are wanted: [R D] f32 in workspace memory.
TensorView output_rows(Step& step, TensorView x);

}  // namespace ashlar

#endif  // ASHLAR_NN_EMBEDDING_H_
