// Op<Args>: the one door every kernel passes. An operation is a constant-initialised object: a
// name, a contract, a cost and one cell per backend. Calling it checks shapes, reports bytes and
// flops to the stream's observer, picks the cell and runs it. While a stream records, the call is
// kept with a copy of its arguments: they refer to memory that does not move, never to a host
// value.
//
//   const Op<NormArgs> rms_norm = {"rms_norm", contract, cost, reference, {cpu_cell, cuda_cell}};
//
// On the CPU the reference fills a missing cell; on CUDA a missing cell ends the process with a
// list of what exists. A cell that a build leaves out is declared [[gnu::weak]], so its address is
// null there and no table of conditionals is needed. Contracts are for programmer errors: what a
// file or a user can get wrong is refused when a model is built.
#ifndef ASHLAR_KERNELS_OP_H_
#define ASHLAR_KERNELS_OP_H_

#include <cstdint>
#include <string>

#include "base/check.h"
#include "device/device.h"
#include "tensor/tensor_view.h"

namespace ashlar {

// The least an operation must move and compute, for profiles: weights and activations read and
// written once.
struct OpCost {
  int64_t bytes = 0;
  int64_t flops = 0;
};

// Collects the first violated line of a contract; messages are built only on failure.
class ShapeCheck {
 public:
  explicit ShapeCheck(const char* op) : op_(op) {}
  void require(bool condition, const char* what) const {
    if (!condition) [[unlikely]] {
      violated(what);
    }
  }
  void shape(const TensorView& view, const Shape& wanted, const char* name) const {
    if (!(view.shape() == wanted)) [[unlikely]] {
      violated_shape(view, wanted, name);
    }
  }
  void dtype(const TensorView& view, DType wanted, const char* name) const {
    if (view.dtype() != wanted) [[unlikely]] {
      violated_dtype(view, wanted, name);
    }
  }

 private:
  [[noreturn]] void violated(const char* what) const;
  [[noreturn]] void violated_shape(const TensorView& view, const Shape& wanted,
                                   const char* name) const;
  [[noreturn]] void violated_dtype(const TensorView& view, DType wanted, const char* name) const;

  const char* op_;
};

[[noreturn]] void missing_cell(const char* op, Backend wanted, bool has_cpu, bool has_cuda);

template <class Args>
struct Op {
  using Cell = void (*)(Stream& stream, const Args& args);

  const char* name;
  void (*contract)(const Args& args, const ShapeCheck& check);
  OpCost (*cost)(const Args& args);
  Cell reference;             // plain, slow, the meaning of the operation; host memory
  Cell cells[kBackendCount];  // by Backend; null: none in this build

  void operator()(Stream& stream, const Args& args) const {
    contract(args, ShapeCheck(name));
    const Backend backend = stream.device().backend();
    Cell cell = cells[static_cast<int>(backend)];
    if (cell == nullptr && backend == Backend::kCpu) cell = reference;
    if (cell == nullptr) [[unlikely]] {
      missing_cell(name, backend, cells[0] != nullptr || reference != nullptr, cells[1] != nullptr);
    }
    if (stream.defers()) [[unlikely]] {
      stream.defer([cell, args](Stream& later) { cell(later, args); });
      return;
    }
    StreamObserver* observer = stream.observer();
    if (observer == nullptr) [[likely]] {
      cell(stream, args);
      return;
    }
    const OpCost cost_of_call = cost(args);
    const OpEvent event{name, cost_of_call.bytes, cost_of_call.flops};
    observer->op_begin(stream, event);
    cell(stream, args);
    observer->op_end(stream, event);
  }
};

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_OP_H_
