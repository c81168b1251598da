// The walkthrough's weight format: weight I8 [N K] with a scale a row, weight_scale F32 [N]; W =
// code * scale. It is decoded at load, so it shows the interface and not how to be fast.
#ifndef ASHLAR_FORMATS_INT8_ROWS_INT8_ROWS_H_
#define ASHLAR_FORMATS_INT8_ROWS_INT8_ROWS_H_

#include "formats/format.h"

namespace ashlar {

class Int8Rows : public WeightFormat {
 public:
  std::string name() const override { return "int8 rows"; }
  bool recognizes(const TensorGroup& tensors) const override;
  Result<std::unique_ptr<Weight>> load(std::span<const WeightPart> parts, Device& device,
                                       WeightLoader* loader) const override;
};

extern const Int8Rows int8_rows;

}  // namespace ashlar

#endif  // ASHLAR_FORMATS_INT8_ROWS_INT8_ROWS_H_
