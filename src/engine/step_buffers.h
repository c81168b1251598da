// StepBuffers: the device memory that steps read their inputs from, and how a plan gets there.
//
// Three kinds: what the host writes for one step (filled in one of `sets` images of host memory, so
// that a step can be filled while another's copy waits, then copied in stream order to the one
// place that kernels read), what the device keeps per slot from step to step (newest token, length,
// drafts), and the token and position of each row, which the device works out from both
// (kernels/step_rows). Views depend on the shape of a step alone, so a recorded step finds its
// inputs where they were. Nothing is allocated after construction.
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

// The shape of a step; each number is at most the one that buffers were made for.
struct StepShape {
  int64_t rows = 0;         // T
  int64_t sequences = 0;    // S
  int64_t output_rows = 0;  // R
  int64_t table_pages = 1;  // P

  friend bool operator==(const StepShape&, const StepShape&) = default;
};

// What a plan needs, no row more.
StepShape shape_of(const StepPlan& plan);

// Of one step, i32 all. Rows beyond the plan's are padding: no sequence, token 0, position 0.
// Sequences beyond it have no rows and slot -1.
struct StepViews {
  TensorView host_tokens;      // [T] token, or kFedToken
  TensorView row_sequence;     // [T]
  TensorView sequence_starts;  // [S+1]
  TensorView slots;            // [S]
  TensorView starts;           // [S] length at which the sequence starts, or kKeepsLength
  TensorView first_output;     // [S] its first output row of R, or kNoOutput
  TensorView draft_counts;     // [S]
  TensorView output_slots;     // [S] slot if it has output rows, else -1
  TensorView output_rows;      // [R] row of T
  TensorView row_slot;         // [R] slot, -1: padding
  TensorView row_draft;        // [R] so many drafts of the sequence come before it
  TensorView row_mask;         // [R] its mask, or -1
  TensorView page_table;       // [S P]
  TensorView tokens;           // [T], the device's own
  TensorView positions;        // [T], the device's own
};

class StepBuffers {
 public:
  // largest: of any step. slots: sequences that the device keeps something for; drafts: most of
  // one.
  static Result<StepBuffers> create(Device& device, Stream& stream, const StepShape& largest,
                                    int64_t slots, int64_t drafts, int64_t sets);

  // Writes a plan into set `set`, padded to `shape`, and starts the copies. The set must not be in
  // use: the step that used it last is done.
  StepViews fill(Stream& stream, const StepPlan& plan, const StepShape& shape, int64_t set);

  // Where a step of that shape finds its inputs.
  StepViews views(const StepShape& shape) const;

  // What slots keep on the device.
  TensorView feed() const { return feed_; }        // [slots] newest token
  TensorView lengths() const { return lengths_; }  // [slots] positions computed and kept
  TensorView drafts() const { return drafts_; }    // [slots drafts]

  // What create() allocates on the device.
  static int64_t device_bytes(const StepShape& largest, int64_t slots, int64_t drafts);

 private:
  Device* device_ = nullptr;
  StepShape largest_;
  std::vector<Buffer> images_;  // host memory, one a set
  Buffer inputs_;               // on the device, laid out as an image
  Buffer derived_;              // tokens, positions
  Buffer kept_;
  TensorView feed_;
  TensorView lengths_;
  TensorView drafts_;
};

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_STEP_BUFFERS_H_
