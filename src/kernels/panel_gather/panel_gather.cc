// panel_gather's contract, cost, reference and CPU cell, which differs in using threads only: a row
// costs a microsecond. Ids are device data and cannot be part of the contract; a row that does not
// exist is a CHECK.
#include "kernels/panel_gather/panel_gather.h"

#include "kernels/parallel_rows.h"

namespace ashlar {

namespace {

void panel_gather_contract(const PanelGatherArgs& args, const ShapeCheck& check) {
  check.dtype(args.ids, DType::kI32, "ids");
  check.dtype(args.y, DType::kF32, "y");
  check.require(args.ids.shape().rank() == 1 && args.y.shape().rank() == 2, "ids [T] and y [T K]");
  check.require(args.ids.dim(0) == args.y.dim(0), "as many rows of y as ids");
  for (const PanelMatrix& part : args.weight) {
    check.require(part.inputs == args.y.dim(1), "rows of the weight as long as y");
  }
}

OpCost panel_gather_cost(const PanelGatherArgs& args) {
  const int64_t count = args.y.shape().count();
  const int64_t row_bytes =
      args.weight.empty()
          ? 0
          : args.weight.front().layout.panel_bytes(args.weight.front().inputs) / kPanelRows;
  return {.bytes = args.ids.dim(0) * (row_bytes + 4) + count * 4, .flops = count};
}

void gather_row(const PanelGatherArgs& args, int64_t t) {
  int64_t row = args.ids.as<int32_t>()[t];
  const PanelMatrix* part = args.weight.data();
  while (row >= part->rows && part + 1 < args.weight.data() + args.weight.size()) {
    row -= part->rows;
    ++part;
  }
  float* y = args.y.row<float>(t);
  decode_panel_row(*part, row, y);
  if (args.scale == 1.0f) return;
  for (int64_t k = 0; k < args.y.dim(1); ++k) y[k] *= args.scale;
}

void panel_gather_reference(Stream&, const PanelGatherArgs& args) {
  for (int64_t t = 0; t < args.ids.dim(0); ++t) gather_row(args, t);
}

void panel_gather_cpu(Stream& stream, const PanelGatherArgs& args) {
  parallel_rows(stream, args.ids.dim(0), [&](int64_t t) { gather_row(args, t); });
}

}  // namespace

constinit const Op<PanelGatherArgs> panel_gather = {"panel_gather",
                                                    panel_gather_contract,
                                                    panel_gather_cost,
                                                    panel_gather_reference,
                                                    {panel_gather_cpu}};

}  // namespace ashlar
