// Contract, cost and reference of clamp. It has no faster cell, so the reference runs on the CPU.
// NaN stays NaN.
#include "kernels/clamp/clamp.h"

#include <algorithm>

namespace ashlar {

namespace {

void contract(const ClampArgs& args, const ShapeCheck& check) {
  check.require(args.x.shape().rank() == 2, "x of rank 2");
  check.dtype(args.x, DType::kF32, "x");
  check.require(args.limit > 0, "a positive limit");
}

OpCost cost(const ClampArgs& args) { return {args.x.shape().count() * 8, 0}; }

void reference(Stream&, const ClampArgs& args) {
  for (int64_t t = 0; t < args.x.rows(); ++t) {
    float* row = args.x.row<float>(t);
    for (int64_t d = 0; d < args.x.dim(1); ++d)
      row[d] = std::clamp(row[d], -args.limit, args.limit);
  }
}

}  // namespace

constinit const Op<ClampArgs> clamp = {"clamp", contract, cost, reference, {}};

}  // namespace ashlar
