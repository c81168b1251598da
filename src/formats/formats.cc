// The formats, in order of recognition, and the choice among them.
//
// A new packing of single rows is a folder with its codec and one line in kRowStorages; a format of
// several tensors a linear (packed values beside scales) is a folder with its WeightFormat and one
// line in kFormats.
#include "formats/dense/dense.h"
#include "formats/format.h"
#include "formats/gguf_blocks/gguf_blocks.h"
#include "formats/row_format.h"

namespace ashlar {

namespace {

constexpr RowStorage kRowStorages[] = {
    {StorageType::kF32, &f32_rows},     {StorageType::kF16, &f16_rows},
    {StorageType::kBF16, &bf16_rows},   {StorageType::kQ4_0, &q4_0_rows},
    {StorageType::kQ4_1, &q4_1_rows},   {StorageType::kQ5_0, &q5_0_rows},
    {StorageType::kQ5_1, &q5_1_rows},   {StorageType::kQ8_0, &q8_0_rows},
    {StorageType::kQ2_K, &q2_k_rows},   {StorageType::kQ3_K, &q3_k_rows},
    {StorageType::kQ4_K, &q4_k_rows},   {StorageType::kQ5_K, &q5_k_rows},
    {StorageType::kQ6_K, &q6_k_rows},   {StorageType::kIQ4_NL, &iq4_nl_rows},
    {StorageType::kMXFP4, &mxfp4_rows},
};
constinit const RowFormat kRows(kRowStorages);

constexpr const WeightFormat* kFormats[] = {&kRows};

const WeightFormat* recognize(const TensorGroup& tensors) {
  for (const WeightFormat* format : kFormats) {
    if (format->recognizes(tensors)) return format;
  }
  return nullptr;
}

// Why no format took these tensors.
tl::unexpected<Error> unrecognized(const TensorGroup& tensors) {
  const StoredTensor* weight = tensors.find("weight");
  if (weight != nullptr) {
    return fail(ErrorCode::kUnsupported,
                "{}: tensor {} is stored as {}, which no weight format here decodes", weight->file,
                weight->name, storage_name(weight->type));
  }
  if (tensors.empty()) {
    return fail(ErrorCode::kNotFound, "{}: tensor {}.weight is missing",
                tensors.checkpoint().path(), tensors.prefix());
  }
  return fail(ErrorCode::kUnsupported, "{}: no weight format here stores a linear as {}",
              tensors.checkpoint().path(), tensors.tensors().front()->name);
}

}  // namespace

std::span<const WeightFormat* const> weight_formats() { return kFormats; }

Result<std::unique_ptr<Weight>> load_weight(std::span<const WeightPart> parts, Device& device,
                                            WeightLoader* loader) {
  CHECK(!parts.empty());
  const WeightFormat* format = nullptr;
  for (const WeightPart& part : parts) {
    const WeightFormat* found = recognize(part.tensors);
    if (found == nullptr) return unrecognized(part.tensors);
    if (format != nullptr && found != format) {
      return fail(ErrorCode::kUnsupported, "{} and {} cannot be fused: stored as {} and {}",
                  parts.front().tensors.prefix(), part.tensors.prefix(), format->name(),
                  found->name());
    }
    format = found;
  }
  return format->load(parts, device, loader);
}

}  // namespace ashlar
