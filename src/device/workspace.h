// Workspace: per-step scratch, taken like a stack from one buffer that was allocated before the
// first step.
//
// Views live until the Scope they were taken in ends. The size comes from the model's own upper
// bound for the largest step (Model::workspace_bytes); peak_bytes() tells what was really used.
// Used by one thread.
#ifndef ASHLAR_DEVICE_WORKSPACE_H_
#define ASHLAR_DEVICE_WORKSPACE_H_

#include <algorithm>
#include <cstddef>

#include "base/align.h"
#include "tensor/buffer.h"

namespace ashlar {

class Workspace {
 public:
  explicit Workspace(Buffer buffer) : buffer_(std::move(buffer)) {}

  // Uninitialised memory, 64-byte aligned. CHECKs that the buffer is large enough: its size comes
  // from the memory plan.
  TensorView take(DType type, Shape shape) {
    const size_t begin = static_cast<size_t>(round_up(static_cast<int64_t>(used_), 64));
    const size_t end = begin + static_cast<size_t>(shape.count()) * dtype_bytes(type);
    CHECK_LE(end, buffer_.bytes());
    used_ = end;
    peak_ = std::max(peak_, used_);
    return TensorView(static_cast<std::byte*>(buffer_.data()) + begin, type, shape);
  }

  size_t used_bytes() const { return used_; }
  size_t peak_bytes() const { return peak_; }
  size_t capacity_bytes() const { return buffer_.bytes(); }

  // Gives back, at the end of a C++ scope, all that was taken after its beginning.
  class Scope {
   public:
    explicit Scope(Workspace& workspace) : workspace_(workspace), used_(workspace.used_) {}
    ~Scope() { workspace_.used_ = used_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Workspace& workspace_;
    size_t used_;
  };

 private:
  Buffer buffer_;
  size_t used_ = 0;
  size_t peak_ = 0;
};

}  // namespace ashlar

#endif  // ASHLAR_DEVICE_WORKSPACE_H_
