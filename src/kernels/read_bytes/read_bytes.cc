// Contract, cost and reference of read_bytes.
#include "kernels/read_bytes/read_bytes.h"

#include <cstring>

namespace ashlar {

void read_bytes_cpu(Stream& stream, const ReadBytesArgs& args);
[[gnu::weak]] void read_bytes_cuda(Stream& stream, const ReadBytesArgs& args);

namespace {

void read_contract(const ReadBytesArgs& args, const ShapeCheck& check) {
  check.require(args.data.shape().rank() == 1, "data of rank 1");
  check.dtype(args.data, DType::kU8, "data");
  check.require(args.data.dim(0) % 32 == 0, "a multiple of 32 bytes");
  check.require(reinterpret_cast<uintptr_t>(args.data.data()) % 32 == 0,
                "data at a multiple of 32 bytes");
  check.shape(args.sums, {kReadSums}, "sums");
  check.dtype(args.sums, DType::kI32, "sums");
  check.require(args.way >= 0 && args.way < kReadWays, "one of its ways");
  if (args.clock.empty()) return;
  check.shape(args.clock, {2}, "clock");
  check.dtype(args.clock, DType::kF32, "clock");
}

OpCost read_cost(const ReadBytesArgs& args) { return {.bytes = args.data.dim(0), .flops = 0}; }

void read_reference(Stream&, const ReadBytesArgs& args) {
  uint32_t sum = 0;
  for (int64_t at = 0; at < args.data.dim(0); at += 4) {
    uint32_t word = 0;
    std::memcpy(&word, args.data.as<uint8_t>() + at, 4);
    sum += word;
  }
  int32_t& total = args.sums.as<int32_t>()[0];
  total = static_cast<int32_t>(static_cast<uint32_t>(total) + sum);
}

}  // namespace

constinit const Op<ReadBytesArgs> read_bytes = {
    "read_bytes", read_contract, read_cost, read_reference, {read_bytes_cpu, read_bytes_cuda}};

}  // namespace ashlar
