// Contract, cost and reference of fill_synthetic. The CPU's models are filled by checkpoint/ with
// the same function, by several threads, where their files would be mapped.
#include "kernels/fill_synthetic/fill_synthetic.h"

namespace ashlar {

[[gnu::weak]] void fill_synthetic_cuda(Stream& stream, const FillSyntheticArgs& args);

namespace {

void fill_contract(const FillSyntheticArgs& args, const ShapeCheck& check) {
  check.require(args.first >= 0, "a first element from 0");
  check.require(args.y.contiguous(), "y contiguous");
  check.dtype(args.y, DType::kBF16, "y");
}

OpCost fill_cost(const FillSyntheticArgs& args) {
  return {.bytes = args.y.shape().count() * 2, .flops = 2 * args.y.shape().count()};
}

void fill_reference(Stream&, const FillSyntheticArgs& args) {
  BF16* y = args.y.as<BF16>();
  for (int64_t i = 0; i < args.y.shape().count(); ++i) {
    y[i].bits = synthetic_bf16(args.values, static_cast<uint64_t>(args.first + i));
  }
}

}  // namespace

constinit const Op<FillSyntheticArgs> fill_synthetic = {
    "fill_synthetic", fill_contract, fill_cost, fill_reference, {nullptr, fill_synthetic_cuda}};

}  // namespace ashlar
