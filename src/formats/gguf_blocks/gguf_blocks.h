// The block formats of GGUF files: 32 or 256 consecutive elements of a row with their scales,
// packed in 17 to 210 bytes.
//
// Here is one codec each. The truth of blocks of 32 elements is in blocks_32.cc, of 256 in
// blocks_256.cc; both follow the published layout and its order of operations, product and sum
// rounding apart. Vector code for all of them is in gguf_blocks_cpu.cc. Blocks lie at any
// alignment.
#ifndef ASHLAR_FORMATS_GGUF_BLOCKS_GGUF_BLOCKS_H_
#define ASHLAR_FORMATS_GGUF_BLOCKS_GGUF_BLOCKS_H_

#include "kernels/packed/packed_rows.h"

namespace ashlar {

extern const RowCodec q4_0_rows;
extern const RowCodec q4_1_rows;
extern const RowCodec q5_0_rows;
extern const RowCodec q5_1_rows;
extern const RowCodec q8_0_rows;
extern const RowCodec q2_k_rows;
extern const RowCodec q3_k_rows;
extern const RowCodec q4_k_rows;
extern const RowCodec q5_k_rows;
extern const RowCodec q6_k_rows;
extern const RowCodec iq4_nl_rows;
extern const RowCodec mxfp4_rows;

}  // namespace ashlar

#endif  // ASHLAR_FORMATS_GGUF_BLOCKS_GGUF_BLOCKS_H_
