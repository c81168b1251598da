// StepBuffers: the device memory that steps read their inputs from, and how a plan gets there.
//
// Three kinds: what the host writes for one step (one of `depth` sets, so that a step can be filled
// while another runs), what the device keeps per slot from step to step (newest token, length,
// drafts), and the token and position of each row, which the device works out from both. Nothing is
// allocated after construction.
#ifndef ASHLAR_ENGINE_STEP_BUFFERS_H_
#define ASHLAR_ENGINE_STEP_BUFFERS_H_

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "engine/step_plan.h"
#include "tensor/buffer.h"
#include "tensor/tensor_view.h"

namespace ashlar {

struct StepSizes {
  int64_t rows = 0;         // T, at most
  int64_t sequences = 0;    // S
  int64_t output_rows = 0;  // R
  int64_t table_pages = 0;  // P
  int64_t slots = 0;
  int64_t drafts = 0;
};

// Views of one step, cut to its sizes; i32 all.
struct StepViews {
  TensorView tokens;           // [T]
  TensorView positions;        // [T]
  TensorView row_sequence;     // [T]
  TensorView sequence_starts;  // [S+1]
  TensorView page_table;       // [S P]
  TensorView slots;            // [S]
  TensorView output_rows;      // [R]
};

class StepBuffers {
 public:
  static Result<StepBuffers> create(Device& device, const StepSizes& sizes, int64_t sets);

  // Writes a plan into set `set` and resolves tokens and positions from what the slots keep, in
  // stream order.
  StepViews fill(const StepPlan& plan, int64_t set);

  // What slots keep on the device.
  TensorView feed() const { return feed_; }        // [slots] newest token
  TensorView lengths() const { return lengths_; }  // [slots] positions computed and kept
  TensorView drafts() const { return drafts_; }    // [slots drafts]

 private:
  StepSizes sizes_;
  std::vector<Buffer> sets_;
  Buffer kept_;
  TensorView feed_;
  TensorView lengths_;
  TensorView drafts_;
};

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_STEP_BUFFERS_H_
