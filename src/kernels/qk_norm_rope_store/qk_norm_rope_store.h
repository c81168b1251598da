// qk_norm_rope_store: what lies between the q|k|v projection and attention, in one pass. Each query
// and key head is RMS-normed (where a family does so) and rotated; queries are written back in
// place, keys and values go into pages.
//
// Rotation is half split: with c, s the cosine and sine of pair i at the row's position,
//   y[i] = x[i] * c - x[i + K/2] * s,   y[i + K/2] = x[i + K/2] * c + x[i] * s
// in f32, each product and sum rounded once; on CUDA, where rows are bf16, queries round to it once
// more, at the end. Keys and values round once, to the element type of the
// pages; attention reads all of them from there, also those of its own step. Bias was applied by
// the projection.
#ifndef ASHLAR_KERNELS_QK_NORM_ROPE_STORE_QK_NORM_ROPE_STORE_H_
#define ASHLAR_KERNELS_QK_NORM_ROPE_STORE_QK_NORM_ROPE_STORE_H_

#include "kernels/op.h"

namespace ashlar {

struct QkNormRopeStoreArgs {
  TensorView qkv;     // [T (H+2G)*K] f32, on CUDA bf16: queries, keys, values of a row; queries are
                      // replaced
  TensorView q_norm;  // [K] f32, or empty
  TensorView k_norm;  // [K] f32, or empty
  float eps = 0.0f;
  TensorView cos_sin;  // [positions K] f32: K/2 cosines, then K/2 sines; every position of the step
  TensorView positions;     // [T] i32
  TensorView row_sequence;  // [T] i32; -1: a row of padding, nothing is stored
  TensorView page_table;    // [S P] i32
  TensorView pages;         // [pages 2G B K] f32, f16 or bf16; layout in kernels/kv_pages.h, on
                            // CUDA kernels/kv_pages_cuda.cuh
};

extern const Op<QkNormRopeStoreArgs> qk_norm_rope_store;

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_QK_NORM_ROPE_STORE_QK_NORM_ROPE_STORE_H_
