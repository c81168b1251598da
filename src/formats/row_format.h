// RowFormat: weights whose rows are packed on their own, each tensor naming its type: plain numbers
// and GGUF blocks.
//
// On the CPU, types whose blocks are integers are re-laid into panels (panel_weight.h). The others
// stay where the file is mapped, also where rows have to be found in another order, and are decoded
// on the fly to f32. On a CUDA device all become bf16 (tile_weight.h). Either way parts of
// different types fuse into one weight, if all of them are of the same kind. Which types exist is
// the table that the constructor takes (formats.cc).
#ifndef ASHLAR_FORMATS_ROW_FORMAT_H_
#define ASHLAR_FORMATS_ROW_FORMAT_H_

#include <span>

#include "formats/format.h"
#include "kernels/packed/packed_rows.h"

namespace ashlar {

// "Q4_K", or "Q5_0+Q8_0" for parts of different types.
std::string packing_names(std::span<const PackedRows> parts);

struct RowStorage {
  StorageType type;
  const RowCodec* codec;
};

class RowFormat : public WeightFormat {
 public:
  explicit constexpr RowFormat(std::span<const RowStorage> storages) : storages_(storages) {}

  std::string name() const override { return "rows"; }
  std::string storages() const override;
  bool recognizes(const TensorGroup& tensors) const override;
  Result<std::unique_ptr<Weight>> load(std::span<const WeightPart> parts, Device& device,
                                       WeightLoader* loader) const override;

 private:
  const RowCodec* codec(StorageType type) const;
  // in_place: the rows will be read where the file is mapped. Else nothing of them is touched.
  Result<PackedRows> load_part(const WeightPart& part, bool in_place) const;

  std::span<const RowStorage> storages_;
};

}  // namespace ashlar

#endif  // ASHLAR_FORMATS_ROW_FORMAT_H_
