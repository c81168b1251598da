// Recognises, checks and decodes int8 rows, and hands the decoded rows to the shared matmul.
// Rows in rotation order are refused by name: no file of this format has them.
#include "formats/int8_rows/int8_rows.h"

#include <algorithm>
#include <cstring>

#include "formats/dense/dense.h"
#include "kernels/gather/gather.h"
#include "kernels/matmul/matmul.h"

namespace ashlar {

namespace {

class Int8RowsWeight : public Weight {
 public:
  Int8RowsWeight(Buffer values, int64_t outputs, int64_t inputs, int threads)
      : values_(std::move(values)), inputs_(inputs), threads_(threads) {
    rows_ = {.codec = &f32_rows,
             .data = static_cast<const std::byte*>(values_.data()),
             .rows = outputs,
             .row_bytes = inputs * 4};
  }
  int64_t outputs() const override { return rows_.rows; }
  int64_t inputs() const override { return inputs_; }
  std::string format() const override { return "int8 rows"; }
  int64_t storage_bytes() const override { return rows_.rows * (inputs_ + 4); }
  int64_t workspace_bytes(int64_t rows) const override {
    return matmul_scratch_bytes(rows, threads_) + 64;
  }
  void apply(Stream& stream, Workspace& workspace, TensorView x, TensorView y,
             const Epilogue& epilogue) const override {
    const Workspace::Scope scope(workspace);
    const TensorView scratch =
        workspace.take(DType::kU8, {matmul_scratch_bytes(x.rows(), threads_)});
    matmul(
        stream,
        {.x = x, .weight = std::span(&rows_, 1), .y = y, .epilogue = epilogue, .scratch = scratch});
  }
  void gather(Stream& stream, TensorView ids, TensorView y, float scale) const override {
    ashlar::gather(stream, {.weight = std::span(&rows_, 1), .ids = ids, .y = y, .scale = scale});
  }
  void dequantize(int64_t begin, int64_t count, float* out) const override {
    std::memcpy(out, rows_.row(begin), static_cast<size_t>(count * rows_.row_bytes));
  }

 private:
  Buffer values_;  // [N K] f32
  PackedRows rows_;
  int64_t inputs_;
  int threads_;
};

}  // namespace

constinit const Int8Rows int8_rows;

bool Int8Rows::recognizes(const TensorGroup& tensors) const {
  const StoredTensor* weight = tensors.find("weight");
  return weight != nullptr && weight->type == StorageType::kI8 &&
         tensors.find("weight_scale") != nullptr;
}

Result<std::unique_ptr<Weight>> Int8Rows::load(std::span<const WeightPart> parts, Device& device,
                                               WeightLoader* /* the file is read here */) const {
  int64_t outputs = 0;
  for (const WeightPart& part : parts) outputs += part.outputs;
  const int64_t inputs = parts.front().inputs;
  ASHLAR_ASSIGN(Buffer values,
                device.allocate(static_cast<size_t>(outputs * inputs) * sizeof(float)));
  auto* out = static_cast<float*>(values.data());
  for (const WeightPart& part : parts) {
    const StoredTensor* weight = part.tensors.claim("weight");
    const StoredTensor* scale = part.tensors.claim("weight_scale");
    if (weight->shape != std::vector<int64_t>{part.outputs, part.inputs} ||
        scale->shape != std::vector<int64_t>{part.outputs} || part.order != RowOrder::kPlain) {
      return fail(ErrorCode::kCorrupt, "{}: {} is not [{} {}] with a scale a row", weight->file,
                  weight->name, part.outputs, part.inputs);
    }
    for (int64_t n = 0; n < part.outputs; ++n) {
      float s = 0;
      std::memcpy(&s, scale->data() + n * 4, sizeof(s));
      for (int64_t k = 0; k < inputs; ++k) {
        *out++ = static_cast<float>(static_cast<int8_t>(weight->data()[n * inputs + k])) * s;
      }
    }
  }
  return std::make_unique<Int8RowsWeight>(std::move(values), outputs, inputs,
                                          device.thread_pool()->threads());
}

}  // namespace ashlar
