// Step: what a model sees of one forward pass. Everything is in device memory; a model never learns
// which requests its rows belong to, whether a row is prompt, decode or draft, or whether the step
// is recorded.
//
// Passed by reference to every block; there is no current context. The runner fills it, the views
// live until the step ends. Letters: T rows, S sequences, P pages a sequence, R output rows, B
// positions a page.
#ifndef ASHLAR_NN_STEP_H_
#define ASHLAR_NN_STEP_H_

#include <functional>
#include <span>
#include <string_view>

#include "device/device.h"
#include "device/workspace.h"
#include "tensor/tensor_view.h"

namespace ashlar {

// Called with named intermediate tensors for parity work; see docs/architecture.md.
// Null: no taps.
using StepTap = std::function<void(std::string_view name, TensorView value)>;

struct Step {
  Stream& stream;
  Workspace& workspace;
  TensorView tokens;           // [T] i32
  TensorView positions;        // [T] i32, absolute position of each row
  TensorView row_sequence;     // [T] i32, which of the S sequences a row belongs to; -1: padding
  TensorView sequence_starts;  // [S+1] i32, first row of each sequence; rows of one sequence are
                               // consecutive positions
  TensorView page_table;       // [S P] i32, page of positions [p*B, (p+1)*B); -1 where unused
  TensorView slots;            // [S] i32, recurrent state slot, or -1
  TensorView output_rows;      // [R] i32, rows whose logits are wanted, ascending
  // By PagedState id: [pages 2G B K], G heads of keys, then G of values; layout in
  // kernels/kv_pages.h, on CUDA kernels/kv_pages_cuda.cuh.
  std::span<const TensorView> paged;
  const StepTap* tap = nullptr;

  int64_t rows() const { return tokens.dim(0); }
  // Of what blocks hand each other; the residual stream and the logits are f32.
  DType activation() const { return activation_type(stream.device().backend()); }
  int64_t sequences() const { return sequence_starts.dim(0) - 1; }

  void emit(std::string_view name, TensorView value) const {
    if (tap != nullptr) (*tap)(name, value);
  }
};

}  // namespace ashlar

#endif  // ASHLAR_NN_STEP_H_
