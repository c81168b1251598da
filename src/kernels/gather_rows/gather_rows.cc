// Contract, cost and reference of gather_rows. A copy needs no faster cell.
#include "kernels/gather_rows/gather_rows.h"

#include <cstring>

namespace ashlar {

[[gnu::weak]] void gather_rows_cuda(Stream& stream, const GatherRowsArgs& args);

namespace {

void gather_rows_contract(const GatherRowsArgs& args, const ShapeCheck& check) {
  check.require(args.x.shape().rank() == 2, "x of rank 2");
  check.require(args.rows.shape().rank() == 1, "rows of rank 1");
  check.shape(args.y, {args.rows.dim(0), args.x.dim(1)}, "y");
  check.dtype(args.x, DType::kF32, "x");
  check.dtype(args.rows, DType::kI32, "rows");
  check.dtype(args.y, DType::kF32, "y");
}

OpCost gather_rows_cost(const GatherRowsArgs& args) { return {2 * args.y.shape().count() * 4, 0}; }

void gather_rows_reference(Stream&, const GatherRowsArgs& args) {
  const int32_t* rows = args.rows.as<int32_t>();
  for (int64_t r = 0; r < args.rows.dim(0); ++r) {
    CHECK_GE(rows[r], 0);
    CHECK_LT(rows[r], args.x.rows());
    std::memcpy(args.y.row<float>(r), args.x.row<float>(rows[r]),
                static_cast<size_t>(args.x.dim(1)) * sizeof(float));
  }
}

}  // namespace

constinit const Op<GatherRowsArgs> gather_rows = {"gather_rows",
                                                  gather_rows_contract,
                                                  gather_rows_cost,
                                                  gather_rows_reference,
                                                  {nullptr, gather_rows_cuda}};

}  // namespace ashlar
