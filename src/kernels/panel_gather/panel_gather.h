// panel_gather: y[t] = W[ids[t]] * scale, rows of a matrix in panels as f32: the embedding of
// tokens where the head shares its weight. The values are those of gather on the rows of the file;
// the product rounds once.
#ifndef ASHLAR_KERNELS_PANEL_GATHER_PANEL_GATHER_H_
#define ASHLAR_KERNELS_PANEL_GATHER_PANEL_GATHER_H_

#include "kernels/op.h"
#include "kernels/panels/panels.h"

namespace ashlar {

struct PanelGatherArgs {
  std::span<const PanelMatrix> weight;  // N rows of K, part after part
  TensorView ids;                       // [T] i32, each in [0, N)
  TensorView y;                         // [T K] f32, rows may be strided
  float scale = 1.0f;
};

extern const Op<PanelGatherArgs> panel_gather;

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_PANEL_GATHER_PANEL_GATHER_H_
