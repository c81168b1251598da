// ToyModel: a Model without weights whose logits hash everything that the row can see through its
// KV pages.
//
// One wrong page, position, length or token changes every later token, so engine tests that compare
// tokens and logprobs bit for bit notice any mistake of the bookkeeping. It reads unwritten
// positions of its pages, too, with weight zero, as a tiled kernel might: a stale not-a-number
// there shows. Made of operations, so that its steps can be recorded.
#ifndef ASHLAR_TESTING_TOY_MODEL_H_
#define ASHLAR_TESTING_TOY_MODEL_H_

#include <cstdint>

#include "models/model.h"

namespace ashlar {

class ToyModel : public Model {
 public:
  // Columns from decodable on hold the largest logits of the row: a planted fault that a sampler
  // must not see.
  ToyModel(int64_t vocabulary, int64_t decodable, int64_t context_length);

  void forward(Step& step, TensorView logits) override;
  int64_t workspace_bytes(int64_t rows, int64_t output_rows) const override;

  // A row with this input token gets NaN logits and leaves NaN in its pages. -1: none.
  void set_poison(int32_t token) { poison_ = token; }
  void set_most_sequences(int64_t most) { info_.most_sequences = most; }

  int64_t forwards() const { return forwards_; }
  int64_t most_rows() const { return most_rows_; }

 private:
  int32_t poison_ = -1;
  int64_t forwards_ = 0;
  int64_t most_rows_ = 0;
};

}  // namespace ashlar

#endif  // ASHLAR_TESTING_TOY_MODEL_H_
