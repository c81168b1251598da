// Contract, cost and reference of gather_dense. Ids are device data and cannot be part of the
// contract; a row that does not exist ends the process.
#include "kernels/gather_dense/gather_dense.h"

#include "kernels/parallel_rows.h"

namespace ashlar {

[[gnu::weak]] void gather_dense_cuda(Stream& stream, const GatherDenseArgs& args);

namespace {

void gather_dense_contract(const GatherDenseArgs& args, const ShapeCheck& check) {
  const DType type = args.weight.dtype();
  check.require(args.weight.shape().rank() == 2, "weight of rank 2");
  check.require(args.ids.shape().rank() == 1, "ids of rank 1");
  check.shape(args.y, {args.ids.dim(0), args.weight.dim(1)}, "y");
  check.require(type == DType::kF32 || type == DType::kF16 || type == DType::kBF16,
                "weight of f32, f16 or bf16");
  check.dtype(args.ids, DType::kI32, "ids");
  check.dtype(args.y, DType::kF32, "y");
}

OpCost gather_dense_cost(const GatherDenseArgs& args) {
  const int64_t count = args.y.shape().count();
  const int64_t weight_bytes = static_cast<int64_t>(dtype_bytes(args.weight.dtype()));
  return {.bytes = count * (weight_bytes + 4) + args.ids.dim(0) * 4, .flops = count};
}

template <class T>
float as_float(T value) {
  return to_float(value);
}
template <>
float as_float(float value) {
  return value;
}

template <class T>
void gather_row(const GatherDenseArgs& args, int64_t t) {
  const int32_t id = args.ids.as<int32_t>()[t];
  CHECK_GE(id, 0);
  CHECK_LT(id, args.weight.rows());
  const T* row = args.weight.row<T>(id);
  float* y = args.y.row<float>(t);
  for (int64_t k = 0; k < args.y.dim(1); ++k) {
    y[k] = args.scale == 1.0f ? as_float(row[k]) : as_float(row[k]) * args.scale;
  }
}

void gather_dense_reference(Stream& stream, const GatherDenseArgs& args) {
  parallel_rows(stream, args.ids.dim(0), [&](int64_t t) {
    switch (args.weight.dtype()) {
      case DType::kF16:
        return gather_row<F16>(args, t);
      case DType::kBF16:
        return gather_row<BF16>(args, t);
      default:
        return gather_row<float>(args, t);
    }
  });
}

}  // namespace

constinit const Op<GatherDenseArgs> gather_dense = {"gather_dense",
                                                    gather_dense_contract,
                                                    gather_dense_cost,
                                                    gather_dense_reference,
                                                    {nullptr, gather_dense_cuda}};

}  // namespace ashlar
