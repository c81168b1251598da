// Weight and WeightFormat: how a matrix of a checkpoint is stored, and the three things a layer
// asks of it.
//
// A WeightFormat recognises the tensors of one linear (by type and shape, never by an ignore list),
// prepares them for a device and gives a Weight. A Weight answers: apply to rows, gather rows
// (embeddings), dequantise as truth. Layers never branch on a format; rotations, activation scaling
// and kernel choice stay inside apply().
//
// Matmul letters: M rows, N outputs, K inputs; y[m n] = sum over k of x[m k] * W[n k].
#ifndef ASHLAR_FORMATS_FORMAT_H_
#define ASHLAR_FORMATS_FORMAT_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "device/device.h"
#include "device/workspace.h"
#include "kernels/matmul/epilogue.h"
#include "tensor/tensor_view.h"

namespace ashlar {

class WeightLoader;

// How the file orders the rows of q and k. Half split is the order of Hugging Face and of ours.
enum class RowOrder : uint8_t {
  kPlain,
  kRopePairs,  // GGUF architecture "llama": rotation pairs side by side, see rope_pairs_row in
               // packed_rows.h
};

// What will be asked of a weight. The CPU does all of it with every layout; a GPU lays a weight out
// for its use and does nothing else with it.
enum class WeightUse : uint8_t {
  kApply,   // apply() without gates
  kGated,   // apply() with gates, always
  kLookup,  // gather(); on the CPU apply() too, but it is not worth re-laying
  kTied,    // gather() and apply() without gates
};

// One matrix of a fused weight: its tensors (prefix of the group,
// "model.layers.0.self_attn.q_proj") and row order.
struct WeightPart {
  TensorGroup tensors;
  int64_t outputs = 0;  // rows the model expects; a mismatch is refused by name
  int64_t inputs = 0;
  RowOrder order = RowOrder::kPlain;
  int64_t head_size = 0;              // for kRopePairs
  WeightUse use = WeightUse::kApply;  // the first part's counts
};

class Weight {
 public:
  virtual ~Weight() = default;
  virtual int64_t outputs() const = 0;  // N; for gate|up the sum of both
  virtual int64_t inputs() const = 0;   // K
  virtual std::string format()
      const = 0;  // "Q4_K", "bf16", "Q5_0+Q8_0" for parts of different types
  virtual int64_t storage_bytes() const = 0;  // bytes that one pass reads, as they are stored

  // y = epilogue(x W^T). x [M K] of the backend's activation type, rows may be strided; y [M N] of
  // that type or f32, or [M N/2] of that type when gated. f32 where the epilogue adds to y or
  // masks. x and y do not overlap. For a gated weight the first half of the outputs is gate, the
  // second up. The bits of a row do not depend on M.
  virtual void apply(Stream& stream, Workspace& workspace, TensorView x, TensorView y,
                     const Epilogue& epilogue) const = 0;
  // Upper bound of the scratch that apply() takes from the workspace at up to this many rows, in
  // bytes.
  virtual int64_t workspace_bytes(int64_t rows) const = 0;

  // y[t] = W[ids[t]] * scale. ids [T] i32 in [0, N), y [T K] f32.
  virtual void gather(Stream& stream, TensorView ids, TensorView y, float scale) const = 0;

  // The truth, on the host: rows [begin, begin + count) as f32 into out[count K].
  virtual void dequantize(int64_t begin, int64_t count, float* out) const = 0;
};

// One way of storing a linear. Stateless; the table in formats.cc owns one of each and its order is
// the order of recognition.
class WeightFormat {
 public:
  virtual ~WeightFormat() = default;
  virtual std::string name() const = 0;
  // What files call the ways of storing that it reads, for the support table: "F16, Q4_K".
  virtual std::string storages() const { return name(); }
  // Whether this format stores the tensors of this group; decides by type and shape.
  virtual bool recognizes(const TensorGroup& tensors) const = 0;
  // Fuses the parts into one weight, outputs in the order of the parts. Shapes that contradict the
  // format or the wanted outputs and inputs are refused with the tensor's name. The checkpoint
  // stays mapped while the weight lives. A GPU's rows are left to the loader, if there is one: they
  // arrive when it runs.
  virtual Result<std::unique_ptr<Weight>> load(std::span<const WeightPart> parts, Device& device,
                                               WeightLoader* loader) const = 0;
};

// All formats, in order of recognition.
std::span<const WeightFormat* const> weight_formats();

// Finds the format that recognises the parts and loads them as one fused weight. Unrecognised
// parts, or parts that cannot be fused, are refused by name.
Result<std::unique_ptr<Weight>> load_weight(std::span<const WeightPart> parts, Device& device,
                                            WeightLoader* loader = nullptr);

}  // namespace ashlar

#endif  // ASHLAR_FORMATS_FORMAT_H_
