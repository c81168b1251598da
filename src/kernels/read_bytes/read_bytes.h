// read_bytes: reads all bytes of an array once and keeps their sum: what a benchmark compares the
// operations that wait for memory with. The sum makes the reading checkable, so that a kernel that
// skips a part cannot pass for a fast one.
//
// On CUDA there are several ways to cut the work, since which one is the fastest is up to the
// device; on the CPU all are the same. No model calls it.
#ifndef ASHLAR_KERNELS_READ_BYTES_READ_BYTES_H_
#define ASHLAR_KERNELS_READ_BYTES_READ_BYTES_H_

#include "kernels/op.h"

namespace ashlar {

constexpr int kReadWays = 8;
constexpr int64_t kReadSums = 1024;

struct ReadBytesArgs {
  TensorView data;        // [n] u8, n a multiple of 32, at a multiple of 32 bytes
  TensorView sums;        // [kReadSums] i32: their total grows by the sum of the 32-bit words
                          // (little-endian) of data, modulo 2^32
  TensorView clock = {};  // [2] f32, or empty: cycles and nanoseconds that one processor worked at
                          // it, written by way 0 on CUDA; else left as it is
  int way = 0;            // below kReadWays
};

extern const Op<ReadBytesArgs> read_bytes;

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_READ_BYTES_READ_BYTES_H_
