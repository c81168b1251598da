// gather's contract, cost, reference and CPU cell. The cell differs in the decoder it takes and in
// using threads. Ids are device data and cannot be part of the contract; a row that does not exist
// is a CHECK in find_row.
#include "kernels/gather/gather.h"

#include "kernels/parallel_rows.h"

namespace ashlar {

namespace {

void gather_contract(const GatherArgs& args, const ShapeCheck& check) {
  check.dtype(args.ids, DType::kI32, "ids");
  check.dtype(args.y, DType::kF32, "y");
  check.require(args.ids.shape().rank() == 1 && args.y.shape().rank() == 2, "ids [T] and y [T K]");
  check.require(args.ids.dim(0) == args.y.dim(0), "as many rows of y as ids");
  for (const PackedRows& part : args.weight) {
    check.require(args.y.dim(1) % part.codec->block_elements == 0, "whole blocks in a row");
    check.require(
        part.row_bytes == args.y.dim(1) / part.codec->block_elements * part.codec->block_bytes,
        "rows of the weight as long as y");
  }
}

OpCost gather_cost(const GatherArgs& args) {
  const int64_t count = args.y.shape().count();
  const int64_t row_bytes = args.weight.empty() ? 0 : args.weight.front().row_bytes;
  return {.bytes = args.ids.dim(0) * (row_bytes + 4) + count * 4, .flops = count};
}

void gather_row(const GatherArgs& args, int64_t t, DecodeBlocks RowCodec::*decode) {
  const int64_t columns = args.y.dim(1);
  const PackedRow row = find_row(args.weight, args.ids.as<int32_t>()[t]);
  float* y = args.y.row<float>(t);
  (row.codec->*decode)(row.data, columns / row.codec->block_elements, y);
  if (args.scale == 1.0f) return;
  for (int64_t k = 0; k < columns; ++k) y[k] *= args.scale;
}

void gather_reference(Stream&, const GatherArgs& args) {
  for (int64_t t = 0; t < args.ids.dim(0); ++t) gather_row(args, t, &RowCodec::truth);
}

void gather_cpu(Stream& stream, const GatherArgs& args) {
  parallel_rows(stream, args.ids.dim(0), [&](int64_t t) { gather_row(args, t, &RowCodec::cpu); });
}

}  // namespace

constinit const Op<GatherArgs> gather = {
    "gather", gather_contract, gather_cost, gather_reference, {gather_cpu}};

}  // namespace ashlar
